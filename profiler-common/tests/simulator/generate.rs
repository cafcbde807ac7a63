//! Lives by chance.

use proptest::{collection::vec, prelude::*};

use super::life::{CLIENT_READ, Edge, Life, Off, Step, WAITS};

/// A duration: none, a few ns, a transaction's, minutes.
pub fn duration() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..5_u64, 1..3_000_000_u64, 1..600_000_000_000_u64]
}

/// What a server does in the middle of a request. `reads`: a sleep in `ClientRead` may be among it (a message in
/// pieces, `COPY`).
fn work(reads: bool) -> impl Strategy<Value = Vec<Step>> {
    let waits = usize::from(!reads)..WAITS.len();
    let step = prop_oneof![
        3 => duration().prop_map(Step::Run),
        1 => duration().prop_map(|ns| Step::Off(Off::preempted(ns))),
        3 => (waits, duration(), duration())
            .prop_map(|(at, blocked, queued)| Step::Off(Off::blocked(WAITS[at].1, blocked, queued))),
        1 => Just(Step::AnswerInPart),
    ];
    vec(step, 0..8)
}

/// How a request comes: the server sleeps until it is there, or it waits already.
fn arrival(asleep: bool) -> impl Strategy<Value = Vec<Step>> {
    let before = (duration(), duration(), duration(), any::<bool>());
    before.prop_map(move |(run, blocked, queued, preempted)| {
        let mut steps = vec![Step::Run(run)];
        if preempted {
            steps.push(Step::Off(Off::preempted(queued / 2)));
        }
        if asleep {
            steps.push(Step::Off(Off::blocked(CLIENT_READ, blocked, queued)));
        }
        steps
    })
}

fn request(first: bool) -> impl Strategy<Value = Vec<Step>> {
    any::<bool>().prop_flat_map(move |asleep| {
        // With its request already there, a sleep in `ClientRead` later on in the statement is taken for the wait for
        // that request: the ledger begins the statement late (see `timelines.rs`).
        (arrival(asleep), work(asleep || first)).prop_map(|(mut steps, work)| {
            steps.push(Step::Receive);
            steps.extend(work);
            steps
        })
    })
}

/// An idle backend wakes up for itself, runs a transaction of its own or none, and sleeps again.
fn catch_up() -> impl Strategy<Value = Vec<Step>> {
    (arrival(true), 0..2_u32, arrival(true)).prop_map(|(mut steps, transactions, again)| {
        steps.push(Step::Transactions(transactions));
        steps.extend(again);
        steps
    })
}

fn unit() -> impl Strategy<Value = Vec<Step>> {
    (request(true), vec(request(false), 0..4), 0..4_u32, prop::option::weighted(0.2, catch_up())).prop_map(
        |(first, more, transactions, catch_up)| {
            let mut steps = catch_up.unwrap_or_default();
            steps.extend(first);
            // An open transaction has its id; a lone Sync has none.
            steps.push(Step::Transactions(if more.is_empty() { transactions } else { transactions.max(1) }));
            for request in more {
                steps.push(Step::Answer);
                steps.extend(request);
            }
            steps.push(Step::AnswerIdle);
            steps
        },
    )
}

fn units() -> impl Strategy<Value = Vec<Step>> {
    vec(unit(), 0..7).prop_map(|units| units.concat())
}

fn clocks() -> impl Strategy<Value = (u64, u64)> {
    (1..u64::MAX / 4, any::<u64>())
}

/// A backend forked under the probes; in one of three it ends at any step.
pub fn forked() -> impl Strategy<Value = Life> {
    (clocks(), duration(), work(true), units(), prop::option::weighted(0.3, any::<prop::sample::Index>()))
        .prop_map(|((begin_ns, clock_distance_ns), queued, start_up, units, end)| {
            let mut steps = vec![Step::Off(Off::preempted(queued))];
            steps.extend(start_up);
            steps.push(Step::Transactions(1));
            steps.push(Step::AnswerIdle);
            steps.extend(units);
            if let Some(end) = end {
                steps.truncate(1 + end.index(steps.len()));
                steps.push(Step::Exit);
            }
            Life { begin_ns, clock_distance_ns, run_delay_ns: 0, attach_after_ns: None, steps }
        })
}

/// A backend that is idle at first, and the probes come at any instant of what it does then.
pub fn attached() -> impl Strategy<Value = Life> {
    (clocks(), 0..u64::MAX / 4, units(), 0..=1_000_u64, any::<prop::sample::Index>()).prop_map(
        |((begin_ns, clock_distance_ns), run_delay_ns, steps, permille, step)| {
            let mut life =
                Life { begin_ns, clock_distance_ns, run_delay_ns, attach_after_ns: Some(0), steps };
            // An instant by chance would lie in the longest steps only: half of them lie in a step by chance.
            let steps =
                if permille % 2 == 0 { life.steps.len() } else { step.index(life.steps.len().max(1)) };
            let before = Life { steps: life.steps[..steps].to_vec(), ..life.clone() };
            let after_ns = before.length_ns() / 1_000 * permille + permille % 7;
            life.attach_after_ns = Some(if permille == 0 { 0 } else { after_ns });
            life
        },
    )
}

/// Takes edges from the probes: never two in a row, which nothing could tell from none. `choices` is repeated.
pub fn lose(life: &mut Life, choices: &[u8], edges: &[Edge], from_gap: usize) {
    let (mut gap, mut last) = (0, None);
    for step in &mut life.steps {
        if let Step::Off(off) = step {
            let choice = choices.get(gap % choices.len().max(1)).map_or(0, |choice| *choice as usize);
            let edge = edges.get(choice).copied();
            let in_a_row = last == Some(Edge::In) && edge == Some(Edge::Out);
            off.lost = edge.filter(|_| gap >= from_gap && !in_a_row);
            last = off.lost;
            gap += 1;
        }
    }
}
