//! The ordinary cases, drawn. How to read them: `simulator/drawing.rs`. Each is told by hand, by the ledger and, unless
//! an edge is lost for good, by the simulator's oracle, which this checks as well.

mod simulator;

use profiler_common::loss::Loss::{self, EdgeMissing, EndedInTransaction, IdleSend, SwitchInUnseen};
use simulator::{
    drawing::{describe, life},
    play::play,
    truth::Truth,
};

struct Case {
    name: &'static str,
    time: &'static str,
    marks: &'static str,
    /// What is counted: `begin..end transactions: time by bucket / waits, blocked+queued / statements`.
    units: &'static [&'static str],
    losses: &'static [(Loss, u64)],
    /// Whether the oracle, which knows the truth, is to say the same.
    true_to_life: bool,
}

impl Case {
    const fn new(name: &'static str, time: &'static str, marks: &'static str) -> Self {
        Case { name, time, marks, units: &[], losses: &[], true_to_life: true }
    }

    const fn counts(mut self, units: &'static [&'static str]) -> Self {
        self.units = units;
        self
    }

    const fn loses(mut self, losses: &'static [(Loss, u64)]) -> Self {
        self.losses = losses;
        self
    }

    const fn untrue(mut self) -> Self {
        self.true_to_life = false;
        self
    }
}

const CASES: &[Case] = &[
    Case::new(
        "a request wakes the backend; its unit begins with the wake-up and ends with the answer",
        "....--##rr-###..",
        "      >       ! ",
    )
    .counts(&["4..14 1x: page_read 2, cpu 5, run_queue 3 / 1r 2+1 / 4..14"]),
    Case::new(
        "preempted: no wait, run queue only",
        "..-##---##..",
        "   >      ! ",
    )
    .counts(&["2..10 1x: cpu 4, run_queue 4 /  / 2..10"]),
    Case::new(
        "a wait without a name",
        "..#uuu#..",
        "  >    ! ",
    )
    .counts(&["2..7 1x: cpu 2, unattributed 3 / 1u 3+0 / 2..7"]),
    Case::new(
        "the same wait twice is one event, two waits",
        "..#ww-#www#..",
        "  >        ! ",
    )
    .counts(&["2..11 1x: wal_fsync 5, cpu 3, run_queue 1 / 2w 5+1 / 2..11"]),
    Case::new(
        "one sleep right after the other",
        "..#lls-#..",
        "  >     ! ",
    )
    .counts(&["2..8 1x: lock 2, cpu 2, run_queue 1, other_wait 1 / 1l 2+0, 1s 1+1 / 2..8"]),
    Case::new(
        "an open transaction: the client's time is the unit's, but no statement's",
        "..##ccc-##l##cc##ww#...",
        "  > ;   +    ; +    !",
    )
    .counts(&[
        "2..20 1x: wal_fsync 2, lock 1, cpu 9, run_queue 1, client 5 / 2c 5+1, 1w 2+0, 1l 1+0 / 2..4, 7..13, 15..20",
    ]),
    Case::new(
        "the backend goes on after its answer: between two statements, but the unit's",
        "..##-##cc##...",
        "  > ;    + !",
    )
    .counts(&["2..11 1x: cpu 6, run_queue 1, client 2 / 1c 2+0 / 2..4, 9..11"]),
    Case::new(
        "the next request is already there: the units touch",
        "..###l####..",
        "  >  !>  ! ",
    )
    .counts(&["2..5 1x: cpu 3 /  / 2..5", "5..9 1x: lock 1, cpu 3 / 1l 1+0 / 5..9"]),
    Case::new(
        "what is done after the answer and before the sleep is nobody's",
        "..###ww##...-##...",
        "  >  !       > !",
    )
    .counts(&["2..5 1x: cpu 3 /  / 2..5", "12..15 1x: cpu 2, run_queue 1 /  / 12..15"]),
    Case::new(
        "several transactions in one request",
        "..###rr##...",
        "  > m  m !",
    )
    .counts(&["2..9 3x: page_read 2, cpu 5 / 1r 2+0 / 2..9"]),
    Case::new(
        "an answer without a transaction is no unit",
        "..##...###...",
        "  + !  >  !",
    )
    .counts(&["7..10 1x: cpu 3 /  / 7..10"])
    .loses(&[(IdleSend, 1)]),
    Case::new(
        "data from the client in the middle of a request",
        "..##cc-#ccc#...",
        "  > ,       !",
    )
    .counts(&["2..12 1x: cpu 4, run_queue 1, client 5 / 2c 5+1 / 2..12"]),
    Case::new(
        "an idle backend wakes up for itself and runs a transaction of its own",
        "...-##....##...",
        "    m     > !",
    )
    .counts(&["10..12 1x: cpu 2 /  / 10..12"]),
    Case::new(
        "forked: the start-up is no unit",
        "--##cc#rr#...-##...",
        "          !   > !",
    )
    .counts(&["13..16 1x: cpu 2, run_queue 1 /  / 13..16"]),
    Case::new(
        "forked, with the first request already there",
        "-##ss###...",
        "   !  > !",
    )
    .counts(&["3..8 1x: cpu 3, other_wait 2 / 1s 2+0 / 3..8"]),
    Case::new(
        "attached while on a CPU: the first unit began unseen",
        "..#####..##..",
        "  > @  ! > !",
    )
    .counts(&["9..11 1x: cpu 2 /  / 9..11"]),
    Case::new(
        "attached while blocked",
        "..##llll##..-##..",
        "  >   @   !  > !",
    )
    .counts(&["12..15 1x: cpu 2, run_queue 1 /  / 12..15"]),
    Case::new(
        "attached while waiting for a CPU",
        "..----##..##..",
        "    @ > ! > !",
    )
    .counts(&["10..12 1x: cpu 2 /  / 10..12"]),
    Case::new(
        "attached between two statements: the rest of the unit is not counted",
        "..##ccc##cc##..##..",
        "  > ; @+ ; + ! > !",
    )
    .counts(&["15..17 1x: cpu 2 /  / 15..17"]),
    Case::new(
        "ended in an open transaction",
        "-#..##cc##",
        " !  > ;  +x",
    )
    .loses(&[(EndedInTransaction, 1)]),
    Case::new(
        "ended idle",
        "-#..##...#",
        " !  > !   x",
    )
    .counts(&["4..6 1x: cpu 2 /  / 4..6"]),
    Case::new(
        "a switch-in is not traced: the kernel still says when it was",
        "..-##ll--##...-##..",
        "   >     i !   i>!",
    )
    .counts(&[
        "2..11 1x: lock 2, cpu 4, run_queue 3 / 1l 2+2 / 2..11",
        "14..17 1x: cpu 2, run_queue 1 /  / 14..17",
    ])
    .loses(&[(SwitchInUnseen, 2)])
    .untrue(),
    Case::new(
        "a switch-in is not traced before the clocks are known: nobody knows what the stretch was",
        "--##ll--##..",
        "  i      !",
    )
    .loses(&[(EdgeMissing, 1)])
    .untrue(),
    Case::new(
        "the same in a unit that is counted: nothing else changes",
        "--###ll-##ll-##..",
        "  i!>   i      !",
    )
    .counts(&["3..15 1x: lock 2, cpu 4, run_queue 1, unattributed 5 / 1l 2+1 / 3..15"])
    .loses(&[(EdgeMissing, 2)])
    .untrue(),
    Case::new(
        "the same at the end of an idle sleep: nobody knows where the unit begins, so it is not counted",
        "..-##..-##..",
        "   i>!   >!",
    )
    .counts(&["7..10 1x: cpu 2, run_queue 1 /  / 7..10"])
    .loses(&[(EdgeMissing, 1)])
    .untrue(),
    Case::new(
        "a switch-out is not traced: nobody knows when or why",
        "..#s##ll-##..",
        "  >  ;o   +!",
    )
    .counts(&["2..11 1x: cpu 4, other_wait 1, unattributed 4 / 1s 1+0 / 2..5, 5..11"])
    .loses(&[(EdgeMissing, 1)])
    .untrue(),
    Case::new(
        "a limit: the next request was there, and a wait for more of it is taken for the wait for it (truly 3..9)",
        "..###cc##..",
        "  >;+    !",
    )
    .counts(&["2..9 1x: cpu 5, client 2 / 1c 2+0 / 2..3, 7..9"])
    .untrue(),
];

#[test]
fn drawn_lives_are_told_as_they_are() {
    for case in CASES {
        let life = life(case.time, case.marks);
        let Some(played) = play(&life) else { panic!("{}: never attached", case.name) };
        let told: Vec<String> = played.units.iter().map(describe).collect();
        let drawing = format!("{}\n  {}\n  {}\n", case.name, case.time, case.marks);
        assert_eq!(told, case.units, "{drawing}");
        for loss in Loss::ALL {
            let expected = case.losses.iter().find(|expected| expected.0 == loss).map_or(0, |loss| loss.1);
            assert_eq!(played.losses.of(loss), expected, "{}: {drawing}", loss.name());
        }
        if case.true_to_life {
            let truth: Vec<String> = Truth::of(&life).units.iter().map(describe).collect();
            assert_eq!(told, truth, "{drawing}");
        }
    }
}
