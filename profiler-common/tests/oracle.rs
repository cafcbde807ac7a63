//! Many lives by chance, each told by the simulator and by the ledger: unit by unit, statement by statement and event
//! by event they agree to the nanosecond.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod simulator;

use profiler_common::{
    bucket::{WAKE_TO_RUN, charged_ns},
    loss::Loss,
};
use proptest::{collection::vec, prelude::*};
use simulator::{
    generate::{attached, forked, lose},
    life::{Edge, Life, Off, Step},
    play::play,
    programs::{Losses, Programs},
    truth::{Truth, Unit},
};

/// Plays a life and compares everything but the losses.
fn told(life: &Life) -> (Option<Programs>, Truth) {
    let truth = Truth::of(life);
    let played = play(life);
    let units = played.as_ref().map(|programs| programs.units.as_slice()).unwrap_or_default();
    assert_eq!(units, truth.units);
    assert_eq!(played.as_ref().and_then(|programs| programs.connection_ns), truth.connection_ns);
    (played, truth)
}

fn expected_losses(truth: &Truth, ended: Option<&Step>, played: &Losses) -> Losses {
    let mut losses = Losses::default();
    losses.0[Loss::IdleSend as usize] = truth.lone_answers;
    if ended == Some(&Step::Exit) {
        let counted = played.of(Loss::EndedInTransaction);
        let in_transaction = truth.ended_in_transaction.map_or(counted, u64::from);
        losses.0[Loss::EndedInTransaction as usize] = in_transaction;
    }
    losses
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_forked_backend_is_told_to_the_nanosecond(life in forked()) {
        let (played, truth) = told(&life);
        let played = played.unwrap();
        prop_assert_eq!(&played.losses, &expected_losses(&truth, life.steps.last(), &played.losses));
    }

    #[test]
    fn a_life_has_the_time_of_its_steps(mut life in forked()) {
        life.steps.retain(|step| *step != Step::Exit);
        life.steps.push(Step::AnswerIdle);
        let played = play(&life).unwrap();
        prop_assert_eq!(played.backend.ledger.life, Truth::of(&life).life);
        prop_assert_eq!(charged_ns(&played.backend.ledger.life), life.length_ns());
    }

    #[test]
    fn whenever_the_probes_come_the_first_unit_counted_is_whole(life in attached()) {
        let (played, truth) = told(&life);
        if let Some(played) = played {
            prop_assert_eq!(&played.losses, &expected_losses(&truth, None, &played.losses));
        }
    }

    #[test]
    fn statements_lie_in_their_unit_and_leave_out_only_the_time_between(life in forked()) {
        for unit in &play(&life).unwrap().units {
            let (first, last) = (unit.statements.first().unwrap(), unit.statements.last().unwrap());
            prop_assert_eq!(first.start_ns, unit.whole.start_ns);
            prop_assert_eq!(last.end_ns, unit.whole.end_ns);
            let between_ns: u64 =
                unit.statements.windows(2).map(|pair| pair[1].start_ns - pair[0].end_ns).sum();
            let inside_ns: u64 = unit.statements.iter().flat_map(|statement| statement.buckets).sum();
            prop_assert_eq!(inside_ns + between_ns, unit.whole.end_ns - unit.whole.start_ns);
        }
    }

    #[test]
    fn switch_ins_that_are_not_traced_change_nothing_once_the_clocks_are_known(
        mut life in forked(),
        choices in vec(0..3_u8, 1..40),
    ) {
        // The fork's own switch-in is seen: it tells the distance between the clocks.
        lose(&mut life, &choices, &[Edge::In], 1);
        life.steps.retain(|step| *step != Step::Exit);
        life.steps.push(Step::AnswerIdle);
        let (played, truth) = told(&life);
        let played = played.unwrap();
        let mut losses = expected_losses(&truth, None, &played.losses);
        losses.0[Loss::SwitchInUnseen as usize] = life.lost_edges();
        prop_assert_eq!(&played.losses, &losses);
        prop_assert_eq!(played.backend.ledger.life, truth.life);
    }

    #[test]
    fn a_unit_whose_begin_is_not_known_is_not_counted_and_no_other_holds_its_idle_time(
        mut life in forked(),
        choices in vec(0..2_u8, 1..10),
    ) {
        // Without the fork's switch-in the distance between the clocks is not known, for some lives for long.
        lose(&mut life, &choices, &[Edge::In], 0);
        life.steps.retain(|step| *step != Step::Exit);
        let played = play(&life).unwrap();
        let borders = |unit: &Unit| (unit.whole.start_ns, unit.whole.end_ns, unit.transactions);
        let mut there = Truth::of(&life).units;
        let expected = there.len();
        for unit in &played.units {
            let at = there.iter().position(|other| borders(other) == borders(unit));
            prop_assert!(at.is_some(), "no such unit: {:?}", unit);
            there.remove(at.unwrap());
        }
        let missing = (expected - played.units.len()) as u64;
        prop_assert!(missing <= played.losses.of(Loss::EdgeMissing));
    }

    #[test]
    fn other_lost_edges_take_time_to_unattributed_and_nowhere_else(
        mut life in forked(),
        choices in vec(0..6_u8, 1..40),
    ) {
        lose(&mut life, &choices, &[Edge::In, Edge::Out], 0);
        // A fork has no switch-out.
        if let Some(Step::Off(Off { lost, .. })) = life.steps.first_mut()
            && *lost == Some(Edge::Out)
        {
            *lost = None;
        }
        life.steps.retain(|step| *step != Step::Exit);
        life.steps.push(Step::AnswerIdle);
        let played = play(&life).unwrap();
        let truth = Truth::of(&life);
        let edges = played.losses.edges();
        prop_assert_eq!(edges, life.lost_edges(), "each lost edge is counted once: {:?}", played.losses);
        let unattributed = profiler_common::bucket::Bucket::Unattributed as usize;
        for (slot, (charged, true_ns)) in played.backend.ledger.life.iter().zip(truth.life).enumerate() {
            prop_assert!(slot == unattributed || slot == WAKE_TO_RUN as usize || *charged <= true_ns, "slot {}: {} > {}", slot, charged, true_ns);
        }
        prop_assert_eq!(charged_ns(&played.backend.ledger.life), life.length_ns());
        if played.losses.of(Loss::EdgeMissing) == 0 {
            prop_assert_eq!(played.units, truth.units);
        }
    }
}
