//! Every refusal, provoked on a kernel that lacks nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeMap, path::PathBuf};

use super::super::{Check, Options, State, gather, kernel_checks, refusals, render_text};
use crate::{
    kernel::{
        block::BlockOffsets,
        btf::KernelOffsets,
        features::{Features, Support, TRACEPOINTS},
        privilege::Privileges,
    },
    target::{Selector, server::Server},
};

/// A kernel that lacks nothing.
fn complete() -> Features {
    let offsets = KernelOffsets {
        task_pid: 1400,
        registers_syscall: Some(120),
        task_state: 24,
        task_run_delay: 1000,
        task_last_arrival: 1000 + 24,
        task_writes: Some(2176),
        state_is_argument: true,
    };
    let maps = ["array", "percpu_array", "ringbuf"].map(|name| (name.to_owned(), Support::Yes));
    Features {
        release: Some("6.12.1-example".to_owned()),
        privileges: Some(Privileges { user: 0, bpf: true, perfmon: true, sys_admin: true, sys_ptrace: true }),
        btf: Support::Yes,
        offsets: Ok(offsets),
        block: Ok(BlockOffsets::default()),
        tracepoints: TRACEPOINTS.iter().map(|&name| (name.to_owned(), 3)).collect(),
        lockdown: Some("integrity".to_owned()),
        initial_pid_namespace: Some(true),
        cgroup_version: Some(2),
        memlock: Some("8388608".to_owned()),
        pid_max: Some(4_194_304),
        maps: BTreeMap::from(maps),
        run_delay: Support::Yes,
        jit: Some(true),
        bpf_statistics: Support::Yes,
        tracefs: Some(PathBuf::from("/sys/kernel/tracing")),
    }
}

fn states(simulated: &[&str], exact: bool) -> Vec<(&'static str, State)> {
    let simulated: Vec<_> = simulated.iter().map(|name| name.parse().unwrap()).collect();
    let checks = kernel_checks(&complete().simulate(&simulated), exact);
    checks.iter().filter(|check| check.state != State::Ok).map(|check| (check.name, check.state)).collect()
}

#[test]
fn a_complete_kernel_passes() {
    assert_eq!(states(&[], true), []);
    let checks = kernel_checks(&complete(), true);
    assert!(refusals(&checks).is_empty());
    assert!(render_text(&checks).ends_with("\nall 16 checks passed\n"));
}

#[test]
fn every_missing_feature_is_refused_by_name() {
    let failed = |name| vec![(name, State::Failed)];
    assert_eq!(states(&["no-ringbuf"], true), failed("ring_buffer"));
    assert_eq!(states(&["no-percpu_array"], true), failed("map_types"));
    assert_eq!(states(&["lockdown=confidentiality"], true), failed("lockdown"));
    assert_eq!(states(&["pid-namespace"], true), failed("pid_namespace"));
    assert_eq!(states(&["no-privileges"], true), failed("privileges"));
    assert_eq!(states(&["no-sched_switch"], true), failed("tracepoints"));
    assert_eq!(
        states(&["no-run_delay"], true),
        [("task_struct", State::Failed), ("run_queue_clock", State::Failed)]
    );
    assert_eq!(
        states(&["no-btf"], true).iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["btf", "task_struct", "tracepoints", "border_signal"]
    );
    assert_eq!(states(&["kernel=5.4.0"], true), [("kernel", State::Failed), ("memlock", State::Warning)]);
    assert_eq!(states(&["kernel=5.10.0-28-amd64"], true), [("memlock", State::Warning)]);
    assert_eq!(states(&["no-bpf_statistics"], true), [("bpf_statistics", State::Warning)]);
}

#[test]
fn borders_fall_back_but_never_to_approximate_ones_unasked() {
    assert_eq!(states(&["no-sock_send_length"], true), []);
    let both = ["no-sock_send_length", "no-sys_enter"];
    assert_eq!(states(&both, true), [("border_signal", State::Failed)]);
    assert_eq!(states(&both, false), [("border_signal", State::Warning)]);
}

#[test]
fn refusals_carry_found_needed_and_fix() {
    let checks = kernel_checks(&complete().simulate(&["no-privileges".parse().unwrap()]), true);
    assert_eq!(
        refusals(&checks)[0].sentence(),
        "privileges: user id 1000, lacks CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE (needed: CAP_BPF, CAP_PERFMON and \
         CAP_SYS_PTRACE, all of which root has; fix: run it as root: sudo pgstall …)"
    );
}

#[test]
fn the_text_fits_100_columns() {
    let mut checks = gather(&Options::default());
    checks.extend(kernel_checks(&complete().simulate(&["no-btf".parse().unwrap()]), true));
    let text = render_text(&checks);
    for line in text.lines() {
        let is_one_word = !line.trim_start().contains(' ');
        assert!(line.chars().count() <= 100 || is_one_word, "{line}");
    }
    assert!(text.contains("FAILED  btf"), "{text}");
}

#[test]
fn json_keeps_names_and_states() {
    let json = serde_json::to_value(kernel_checks(&complete(), true)).unwrap();
    assert_eq!(json[0]["name"], "privileges");
    assert_eq!(json[0]["state"], "ok");
    assert!(json[0]["fix"].is_null());
}

#[test]
#[ignore = "needs root and a PostgreSQL server"]
fn a_running_server_is_examined() {
    let check = |settings: &[&str], expected: &[(&str, State)]| {
        let server = Server::start(5514, &[], settings);
        let selector = Selector { pgdata: Some(server.data()), ..Selector::default() };
        let checks = gather(&Options { selector, ..Options::default() });
        let of_server: Vec<&Check> = checks.iter().filter(|check| check.postmaster_pid.is_some()).collect();
        let states: Vec<_> = of_server.iter().map(|check| (check.name, check.state)).collect();
        assert_eq!(states, expected, "{}", render_text(&checks));
        eprintln!("{}", render_text(&checks));
    };
    let ok = ["postmaster", "symbols", "transaction_counter", "layout"].map(|name| (name, State::Ok));
    let storage = ("storage", State::Ok);
    check(&[], &[&ok[..], &[("track_activities", State::Ok), storage]].concat());
    check(&["track_activities=off"], &[&ok[..], &[("track_activities", State::Failed), storage]].concat());
}
