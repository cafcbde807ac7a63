//! Lives drawn as two rows: what the backend does, a column per µs, and the marks of what happens at the instant a
//! column begins.
//!
//! ```text
//! #  on a CPU                     >  reads a request that takes a transaction id
//! -  waiting for a CPU            +  reads a request that takes none
//! .  asleep, idle                 m  takes another transaction id
//! c  asleep in ClientRead         ,  answers in part
//! r w l y s u  other waits        ;  answers, the transaction stays open
//!    (see `life::WAITS`)          !  answers, idle
//! @  the probes are attached      x  ends
//! i  this switch-in is not seen   o  this switch-out is not seen
//! ```
//!
//! A life that begins with `-` is forked under the probes; any other begins idle, and the probes come at once unless a
//! mark says when.

use profiler_common::bucket::Bucket;

use super::{
    life::{CLIENT_READ, Edge, Life, Off, Step, WAITS},
    truth::{Stretch, Unit},
};

const COLUMN_NS: u64 = 1_000;
/// Not a multiple of a column: an instant taken for a duration shows.
const BEGIN_NS: u64 = 777_000_123;

/// Reads a drawing.
pub fn life(time: &str, marks: &str) -> Life {
    let forked = time.starts_with('-');
    let mut life = Life::forked(BEGIN_NS, Vec::new());
    life.attach_after_ns = (!forked).then_some(0);
    let (mut gap, mut next_out_lost, mut idle) = (None, false, !forked);
    let columns = time.len().max(marks.len());
    for column in 0..columns {
        let mark = marks.as_bytes().get(column).map_or(' ', |mark| char::from(*mark));
        match mark {
            ' ' => {}
            '@' => life.attach_after_ns = Some(column as u64 * COLUMN_NS),
            'o' => next_out_lost = true,
            'i' => {
                assert!(time[column..].starts_with('#'), "column {column} is no switch-in");
                mark_lost(&mut gap, Edge::In);
            }
            _ => {
                end_gap(&mut life, &mut gap);
                life.steps.extend(steps_of(mark));
                idle = mark == '!' || idle && mark != '>' && mark != '+';
            }
        }
        match time.as_bytes().get(column).map(|at| char::from(*at)) {
            None => end_gap(&mut life, &mut gap),
            Some('#') => {
                end_gap(&mut life, &mut gap);
                life.steps.push(Step::Run(COLUMN_NS));
            }
            Some('-') => gap.get_or_insert(Off::preempted(0)).queued_ns += COLUMN_NS,
            Some(letter) => {
                assert!(letter != '.' || idle, "column {column} is idle in a request");
                let event = WAITS.iter().find(|wait| wait.0 == letter).map_or(CLIENT_READ, |wait| wait.1);
                if gap.is_some_and(|gap| gap.queued_ns > 0 || gap.wait != Some(event)) {
                    end_gap(&mut life, &mut gap);
                }
                gap.get_or_insert(Off::blocked(event, 0, 0)).blocked_ns += COLUMN_NS;
            }
        }
        if next_out_lost && gap.is_some() {
            mark_lost(&mut gap, Edge::Out);
            next_out_lost = false;
        }
    }
    life
}

fn mark_lost(gap: &mut Option<Off>, edge: Edge) {
    match gap {
        Some(gap) => gap.lost = Some(edge),
        None => panic!("a lost edge is marked where there is none"),
    }
}

fn end_gap(life: &mut Life, gap: &mut Option<Off>) {
    life.steps.extend(gap.take().map(Step::Off));
}

fn steps_of(mark: char) -> Vec<Step> {
    match mark {
        '>' => vec![Step::Receive, Step::Transactions(1)],
        '+' => vec![Step::Receive],
        'm' => vec![Step::Transactions(1)],
        ',' => vec![Step::AnswerInPart],
        ';' => vec![Step::Answer],
        '!' => vec![Step::AnswerIdle],
        'x' => vec![Step::Exit],
        other => panic!("no such mark: {other}"),
    }
}

/// A counted unit in columns: `begin..end transactions: time by bucket / waits by event / statements`.
pub fn describe(unit: &Unit) -> String {
    let times = |stretch: &Stretch| {
        let column = |ns| columns(ns - BEGIN_NS);
        format!("{}..{}", column(stretch.start_ns), column(stretch.end_ns))
    };
    let whole = Bucket::ALL.iter().filter(|bucket| unit.whole.buckets[**bucket as usize] > 0);
    let whole =
        whole.map(|bucket| format!("{} {}", bucket.name(), columns(unit.whole.buckets[*bucket as usize])));
    let events = WAITS.iter().filter_map(|(letter, event, _)| {
        let (waits, blocked_ns, queued_ns) = unit.events.get(event)?;
        Some(format!("{waits}{letter} {}+{}", columns(*blocked_ns), columns(*queued_ns)))
    });
    let statements = unit.statements.iter().map(times);
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    format!(
        "{} {}x: {} / {} / {}",
        times(&unit.whole),
        unit.transactions,
        list(&mut { whole }),
        list(&mut { events }),
        list(&mut { statements }),
    )
}

fn columns(ns: u64) -> String {
    if ns.is_multiple_of(COLUMN_NS) { (ns / COLUMN_NS).to_string() } else { format!("{ns} ns") }
}
