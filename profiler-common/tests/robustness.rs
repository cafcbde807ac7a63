//! Calls in any order, with any instants and figures: the sums hold after each, nothing overflows (tests are built with
//! overflow checks), and what is not the normal course is counted.

mod simulator;

use profiler_common::{
    backend::{Backend, STARTING, UNSEEN},
    bucket::{BUCKET_SLOTS, Bucket, WAKE_TO_RUN, charged_ns},
    event::PREEMPTED,
    ledger::{EVENT_ENTRIES, Ledger, SchedInfo, SchedulerClock},
    loss::Loss,
};
use proptest::{collection::vec, prelude::*};
use simulator::{
    invariants::{self, Begin},
    life::{CLIENT_READ, Life, Off, Step},
    play::play,
    programs::Losses,
    truth::Truth,
};

/// Any call on a [`Backend`].
#[derive(Clone, Copy, Debug)]
enum Call {
    Forked(u64),
    Unseen(u64),
    Asleep { event: u32, bucket: u32, run_delay_ns: u64, idle_at: Option<u32> },
    SwitchIn(u64),
    Advance { now_ns: u64, run_delay_ns: u64, last_arrival_ns: u64 },
    SwitchOut { event: u32, bucket: u32, idle: bool, run_delay_ns: u64 },
    CloseStatement,
    Close(u32),
    Open,
}

/// Instants and figures: close together, so that they meet, and now and then at the ends of the range.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_u64, 2 => 0..1_000_000_u64, 1 => any::<u64>(), 1 => u64::MAX - 100..=u64::MAX]
}

fn event() -> impl Strategy<Value = u32> {
    prop_oneof![Just(PREEMPTED), Just(CLIENT_READ), 0..40_u32, any::<u32>()]
}

/// Any number, even one that is no bucket; but not the part of one, which nothing is charged to.
fn bucket() -> impl Strategy<Value = u32> {
    any::<u32>()
        .prop_map(|bucket| if bucket % BUCKET_SLOTS as u32 == WAKE_TO_RUN { bucket ^ 1 } else { bucket })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        1 => number().prop_map(Call::Forked),
        1 => number().prop_map(Call::Unseen),
        1 => (event(), bucket(), number(), any::<Option<u32>>()).prop_map(
            |(event, bucket, run_delay_ns, idle_at)| Call::Asleep { event, bucket, run_delay_ns, idle_at }
        ),
        8 => number().prop_map(Call::SwitchIn),
        8 => (number(), number(), number()).prop_map(|(now_ns, run_delay_ns, last_arrival_ns)| {
            Call::Advance { now_ns, run_delay_ns, last_arrival_ns }
        }),
        8 => (event(), bucket(), any::<bool>(), number()).prop_map(
            |(event, bucket, idle, run_delay_ns)| Call::SwitchOut { event, bucket, idle, run_delay_ns }
        ),
        2 => Just(Call::CloseStatement),
        2 => any::<u32>().prop_map(Call::Close),
        1 => Just(Call::Open),
    ]
}

fn perform(
    backend: &mut Backend,
    begin: &mut Begin,
    call: Call,
    clock: &mut SchedulerClock,
    losses: &mut Losses,
) {
    match call {
        Call::Forked(now_ns) => {
            backend.begin_forked(1, now_ns);
            *begin = Begin { at_ns: now_ns };
        }
        Call::Unseen(now_ns) => {
            backend.begin_unseen(1, now_ns);
            *begin = Begin { at_ns: now_ns };
        }
        Call::Asleep { event, bucket, run_delay_ns, idle_at } => {
            backend.begin_asleep(event, bucket, run_delay_ns, idle_at);
        }
        Call::SwitchIn(now_ns) => backend.ledger.switch_in(now_ns, losses),
        Call::Advance { now_ns, run_delay_ns, last_arrival_ns } => {
            let sched_info = SchedInfo { run_delay_ns, last_arrival_ns };
            backend.advance(now_ns, sched_info, clock, CLIENT_READ, losses);
        }
        Call::SwitchOut { event, bucket, idle, run_delay_ns } => {
            backend.switch_out(event, bucket, idle, run_delay_ns);
        }
        Call::CloseStatement => backend.close_statement(),
        Call::Close(counter) => backend.close(counter),
        Call::Open => backend.open(),
    }
}

/// All that is ever reported of a backend.
fn shown(backend: &Backend) -> impl PartialEq + std::fmt::Debug + use<> {
    let ledger = &backend.ledger;
    let events = ledger.events[..ledger.n_events as usize].to_vec();
    let sums = (
        ledger.buckets,
        ledger.life,
        std::array::from_fn::<u64, BUCKET_SLOTS, _>(|slot| backend.statement_ns(slot)),
        events,
    );
    let instants = (ledger.charged_to_ns, backend.start_ns, backend.statement_start_ns);
    let state = (backend.phase, backend.sleeps_idle(), backend.is_in_unit(), backend.slept_idle);
    (sums, instants, state, backend.local_transactions)
}

/// Any call on a [`Ledger`] alone.
#[derive(Clone, Copy, Debug)]
enum Part {
    SwitchIn(u64),
    HasGap(u64, u64),
    CloseGap(u64),
    CloseQueue,
    RunTo(u64),
    SwitchOut(u32, u32, u64),
    Clear,
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        number().prop_map(Part::SwitchIn),
        (number(), number()).prop_map(|(now_ns, last_arrival_ns)| Part::HasGap(now_ns, last_arrival_ns)),
        number().prop_map(Part::CloseGap),
        Just(Part::CloseQueue),
        number().prop_map(Part::RunTo),
        (event(), bucket(), number()).prop_map(|(event, bucket, ns)| Part::SwitchOut(event, bucket, ns)),
        Just(Part::Clear),
    ]
}

/// A call as the programs make it, at `step` ns after the one before (or before it).
#[derive(Clone, Copy, Debug)]
enum Edge {
    In {
        step: i64,
    },
    /// `queued`: advance of the run-queue clock since the last call.
    Out {
        step: i64,
        queued: i64,
        wait: bool,
    },
    Send {
        step: i64,
        queued: i64,
    },
}

fn edge() -> impl Strategy<Value = Edge> {
    let step = || prop_oneof![20 => 0..1_000_i64, 1 => -1_000..0_i64];
    prop_oneof![
        4 => step().prop_map(|step| Edge::In { step }),
        3 => (step(), step(), any::<bool>())
            .prop_map(|(step, queued, wait)| Edge::Out { step, queued, wait }),
        1 => (step(), step()).prop_map(|(step, queued)| Edge::Send { step, queued }),
    ]
}

/// Knows which call is out of order, and nothing of buckets.
#[derive(Default)]
struct Watch {
    on: bool,
    resumed: Option<u64>,
    charged: u64,
    waits: bool,
    run_delay: u64,
    clock_known: bool,
    departed: bool,
}

impl Watch {
    fn switch_in(&mut self, now: u64) {
        if self.on {
            self.departed = true;
            self.charged = self.charged.max(now);
            self.resumed = None;
        } else {
            self.resumed = Some(now);
        }
        self.on = true;
    }

    fn advance(&mut self, now: u64, run_delay: u64) {
        self.departed |= !self.on;
        if self.resumed.is_some() || !self.on && self.clock_known {
            self.departed |= self.waits && run_delay < self.run_delay;
        }
        if let Some(resumed) = self.resumed.take() {
            self.departed |= resumed < self.charged;
            self.charged = self.charged.max(resumed);
            self.clock_known = true;
        }
        self.departed |= now < self.charged;
        self.charged = self.charged.max(now);
        self.on = true;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn the_sums_hold_after_any_call(calls in vec(call(), 1..80)) {
        let (mut backend, mut begin) = (Backend::default(), Begin { at_ns: 0 });
        let (mut clock, mut losses) = (SchedulerClock::default(), Losses::default());
        for call in calls {
            perform(&mut backend, &mut begin, call, &mut clock, &mut losses);
            invariants::check(&backend, begin);
        }
    }

    #[test]
    fn a_slot_used_before_is_as_good_as_new(
        before in vec(call(), 0..40),
        begin in prop_oneof![number().prop_map(Call::Forked), number().prop_map(Call::Unseen)],
        calls in vec(call(), 1..40),
    ) {
        let (mut used, mut fresh) = (Backend::default(), Backend::default());
        let mut ignored = Begin { at_ns: 0 };
        for call in before {
            perform(&mut used, &mut ignored, call, &mut SchedulerClock::default(), &mut Losses::default());
        }
        let (mut of_used, mut of_fresh) = (Losses::default(), Losses::default());
        let (mut clock, mut same) = (SchedulerClock::default(), SchedulerClock::default());
        for call in std::iter::once(begin).chain(calls) {
            perform(&mut used, &mut ignored, call, &mut clock, &mut of_used);
            perform(&mut fresh, &mut ignored, call, &mut same, &mut of_fresh);
            prop_assert_eq!(shown(&used), shown(&fresh));
            prop_assert_eq!(&of_used, &of_fresh);
        }
    }

    #[test]
    fn the_ledgers_sums_hold_after_any_of_its_parts(parts in vec(part(), 1..80)) {
        let (mut ledger, mut cleared_ns) = (Ledger::default(), 0);
        let (mut clock, mut losses) = (SchedulerClock::default(), Losses::default());
        for part in parts {
            match part {
                Part::SwitchIn(now_ns) => ledger.switch_in(now_ns, &mut losses),
                Part::HasGap(now_ns, last_arrival_ns) => {
                    let sched_info = SchedInfo { run_delay_ns: 0, last_arrival_ns };
                    ledger.has_gap(now_ns, sched_info, &mut clock, &mut losses);
                }
                Part::CloseGap(run_delay_ns) => ledger.close_gap(run_delay_ns, &mut losses),
                Part::CloseQueue => ledger.close_queue(0, &mut losses),
                Part::RunTo(now_ns) => ledger.run_to(now_ns, &mut losses),
                Part::SwitchOut(event, bucket, ns) => ledger.switch_out(event, bucket, ns),
                Part::Clear => {
                    ledger.clear();
                    cleared_ns = ledger.charged_to_ns;
                }
            }
            prop_assert_eq!(charged_ns(&ledger.buckets), ledger.charged_to_ns - cleared_ns);
            prop_assert_eq!(charged_ns(&ledger.life), ledger.charged_to_ns);
        }
    }

    #[test]
    fn a_departure_from_the_normal_course_is_counted_and_nothing_else_is(edges in vec(edge(), 1..60)) {
        let (mut now_ns, mut run_delay_ns, mut last_arrival_ns) = (1_000_000_u64, 0_u64, 0);
        let mut backend = Backend::default();
        backend.begin_forked(1, now_ns);
        let mut watch = Watch { charged: now_ns, ..Watch::default() };
        let (mut clock, mut losses) = (SchedulerClock::default(), Losses::default());
        let mut counted = 0;
        for edge in edges {
            let (Edge::In { step } | Edge::Out { step, .. } | Edge::Send { step, .. }) = edge;
            now_ns = now_ns.saturating_add_signed(step);
            let (Edge::Out { queued, .. } | Edge::Send { queued, .. }) = edge else {
                backend.ledger.switch_in(now_ns, &mut losses);
                watch.switch_in(now_ns);
                last_arrival_ns = now_ns;
                continue;
            };
            run_delay_ns = run_delay_ns.saturating_add_signed(queued);
            let sched_info = SchedInfo { run_delay_ns, last_arrival_ns };
            backend.advance(now_ns, sched_info, &mut clock, CLIENT_READ, &mut losses);
            watch.advance(now_ns, run_delay_ns);
            let so_far = losses.edges();
            prop_assert_eq!(so_far > counted, std::mem::take(&mut watch.departed), "{:?}: {:?}", edge, losses);
            counted = so_far;
            if let Edge::Out { wait, .. } = edge {
                let event = if wait { 7 } else { PREEMPTED };
                backend.switch_out(event, Bucket::Lock as u32, false, run_delay_ns);
                (watch.on, watch.waits, watch.run_delay) = (false, wait, run_delay_ns);
            }
        }
    }
}

#[test]
fn more_events_than_the_table_holds_are_counted_and_their_time_stays_in_the_bucket() {
    let distinct = EVENT_ENTRIES as u32 + 4;
    let mut steps =
        vec![Step::Off(Off::preempted(5)), Step::Transactions(1), Step::AnswerIdle, Step::Receive];
    // Each event twice: what is in the table goes on being charged there.
    for event in (0..distinct).chain(0..distinct) {
        steps.push(Step::Run(3));
        steps.push(Step::Off(Off::blocked(2_000 + event, 100 + u64::from(event), 7)));
    }
    steps.extend([Step::Transactions(1), Step::AnswerIdle]);
    let life = Life::forked(1_000, steps);
    let mut truth = Truth::of(&life).units;
    let Some(played) = play(&life) else { unreachable!("attached from the start") };
    assert_eq!(played.losses.of(Loss::EventTableFull), 2 * 4);
    truth[0].events.retain(|event, _| *event < 2_000 + EVENT_ENTRIES as u32);
    assert_eq!(played.units, truth);
}

#[test]
fn clocks_read_some_nanoseconds_apart_move_nanoseconds_and_lose_none() {
    let (mut backend, mut losses) = (Backend::default(), Losses::default());
    let mut clock = SchedulerClock::default();
    backend.begin_forked(1, 1_000);
    backend.ledger.switch_in(1_400, &mut losses);
    // The scheduler's clock stands 600 ahead of ours, and is read 20 ns earlier.
    let first = SchedInfo { run_delay_ns: 395, last_arrival_ns: 1_980 };
    backend.advance(1_500, first, &mut clock, CLIENT_READ, &mut losses);
    backend.switch_out(7, Bucket::Lock as u32, false, 395);
    // Woken at once and queued all the time: 100 ns by our clock, 103 by the scheduler's.
    backend.ledger.switch_in(1_600, &mut losses);
    let second = SchedInfo { run_delay_ns: 498, last_arrival_ns: 2_180 };
    backend.advance(1_650, second, &mut clock, CLIENT_READ, &mut losses);
    let mut expected = [0; BUCKET_SLOTS];
    expected[Bucket::RunQueue as usize] = 500;
    expected[Bucket::Cpu as usize] = 150;
    assert_eq!(backend.ledger.buckets, expected);
    // The wake-up was not seen, so the kernel's clock had to split the gap; that is all.
    assert_eq!((losses.of(Loss::WakeUnseen), losses.edges()), (1, 0));
}

#[test]
fn an_idle_sleep_whose_end_is_lost_leaves_the_unit_after_it_uncounted() {
    let mut losses = Losses::default();
    let mut backend = Backend::default();
    backend.begin_unseen(1, 1_000);
    backend.begin_asleep(CLIENT_READ, Bucket::Client as u32, 0, Some(41));
    assert!(backend.sleeps_idle());
    // No switch-in was seen, and no distance between the clocks is known.
    backend.advance(9_000, SchedInfo::default(), &mut SchedulerClock::default(), CLIENT_READ, &mut losses);
    assert_eq!((backend.phase, backend.is_in_unit()), (UNSEEN, false));
    assert_eq!(losses.of(Loss::EdgeMissing), 1);
    backend.close(42);
    assert_eq!((backend.start_ns, backend.wall_ns(), backend.is_in_unit()), (9_000, 0, true));
}

#[test]
fn a_start_up_is_no_unit() {
    let mut backend = Backend::default();
    backend.begin_forked(1, 1_000);
    assert_eq!((backend.phase, backend.is_in_unit()), (STARTING, false));
}
