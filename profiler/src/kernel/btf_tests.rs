//! The BTF walker, on type information made here and on the running kernel's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::*;

const INT: u32 = 1;
const PTR: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const FUNC_PROTO: u32 = 13;

/// Writes BTF as https://docs.kernel.org/bpf/btf.html describes it.
struct Writer {
    types: Vec<u8>,
    strings: Vec<u8>,
    n_types: u32,
}

impl Writer {
    fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0], n_types: 0 }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    fn put(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn add(&mut self, name: &str, kind: u32, n_members: u32, bit_fields: bool, size_or_type: u32) -> u32 {
        let name = self.string(name);
        self.put(&[name, kind << 24 | u32::from(bit_fields) << 31 | n_members, size_or_type]);
        self.n_types += 1;
        self.n_types
    }

    fn int(&mut self, name: &str, bytes: u32) -> u32 {
        let id = self.add(name, INT, 0, false, bytes);
        self.put(&[bytes * 8]);
        id
    }

    /// Members: name, type, offset in bits, width in bits (0 = no bit field).
    fn structure(&mut self, name: &str, kind: u32, members: &[(&str, u32, u32, u32)]) -> u32 {
        let bit_fields = members.iter().any(|member| member.3 > 0);
        let id = self.add(name, kind, members.len() as u32, bit_fields, 512);
        for &(name, of, offset, width) in members {
            let name = self.string(name);
            self.put(&[name, of, width << 24 | offset]);
        }
        id
    }

    fn tracepoint(&mut self, name: &str, arguments: &[u32]) {
        let prototype = self.add("", FUNC_PROTO, arguments.len() as u32 + 1, false, 0);
        self.put(&[0, 0]);
        arguments.iter().for_each(|&argument| self.put(&[0, argument]));
        let pointer = self.add("", PTR, 0, false, prototype);
        self.add(&format!("btf_trace_{name}"), TYPEDEF, 0, false, pointer);
    }

    fn finish(self) -> KernelBtf {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let types = self.types.len() as u32;
        for word in [24, 0, types, types, self.strings.len() as u32] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        KernelBtf::from_bytes(&bytes).unwrap()
    }
}

/// A kernel whose `task_struct` has these members besides `pid` at 8 and `tgid` at 12.
fn kernel(members: &[(&str, u32, u32, u32)], switch: &[u32]) -> KernelBtf {
    let mut writer = Writer::new();
    assert_eq!(writer.int("int", 4), 1);
    assert_eq!(writer.int("long", 8), 2);
    assert_eq!(writer.add("pid_t", TYPEDEF, 0, false, 1), 3);
    assert_eq!(
        writer.structure(
            "sched_info",
            STRUCT,
            &[("pcount", 2, 0, 0), ("run_delay", 2, 64, 0), ("last_arrival", 2, 128, 0)]
        ),
        4
    );
    assert_eq!(writer.structure("", UNION, &[("sched_info", 4, 64, 0), ("flag", 1, 3, 1)]), 5);
    assert_eq!(writer.add("", PTR, 0, false, 1), 6);
    let mut all = vec![("pid", 3, 64, 0), ("tgid", 3, 96, 0)];
    all.extend(members);
    writer.structure("task_struct", STRUCT, &all);
    writer.tracepoint("sched_switch", switch);
    writer.finish()
}

const STATE: (&str, u32, u32, u32) = ("__state", 1, 0, 0);
const OLD_STATE: (&str, u32, u32, u32) = ("state", 2, 0, 0);
const ANONYMOUS: (&str, u32, u32, u32) = ("", 5, 1024, 0);
const SWITCH: [u32; 4] = [1, 6, 6, 1];

#[test]
fn members_are_found_through_typedefs_and_anonymous_unions() {
    let offsets = KernelOffsets::resolve(&kernel(&[STATE, ANONYMOUS], &SWITCH)).unwrap();
    assert_eq!(
        offsets,
        KernelOffsets {
            task_pid: 8,
            task_state: 0,
            task_run_delay: 128 + 8 + 8,
            task_last_arrival: 128 + 8 + 16,
            registers_syscall: None,
            task_writes: None,
            state_is_argument: true
        }
    );
}

#[test]
fn kernels_before_5_14_and_5_18_are_understood() {
    let offsets = KernelOffsets::resolve(&kernel(&[OLD_STATE, ANONYMOUS], &SWITCH[..3])).unwrap();
    assert_eq!((offsets.task_state, offsets.state_is_argument), (0, false));
}

#[test]
fn what_is_missing_or_unreadable_is_named() {
    let check = |members: &[_], switch: &[u32], expected: &str| {
        let error = KernelOffsets::resolve(&kernel(members, switch)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(&[STATE], &SWITCH, "struct task_struct of this kernel has no member sched_info");
    check(&[ANONYMOUS], &SWITCH, "struct task_struct of this kernel has no member state");
    check(
        &[("__state", 1, 0, 31), ANONYMOUS],
        &SWITCH,
        "member __state of struct task_struct is a bit field in this kernel",
    );
    check(
        &[("__state", 2, 0, 0), ANONYMOUS],
        &SWITCH,
        "task_struct.__state is 8 bytes wide in this kernel, 4 are needed",
    );
    check(
        &[STATE, ANONYMOUS],
        &[1, 1, 6, 6],
        "the kernel's tracepoint sched_switch passes 4 arguments of unknown meaning \
         (preempt, prev, next and, since 5.18, prev_state are known)",
    );
    let btf = kernel(&[STATE, ANONYMOUS], &SWITCH);
    assert_eq!(
        btf.number("task_struct", "pid.value", &[4]).unwrap_err().to_string(),
        "struct task_struct.pid of this kernel has no member value"
    );
    assert_eq!(
        btf.number("task_structure", "pid", &[4]).unwrap_err().to_string(),
        "struct task_structure is not in the kernel's type information"
    );
    assert_eq!(
        btf.number("task_struct", "flag", &[4]).unwrap_err().to_string(),
        "member flag of struct task_struct is a bit field in this kernel"
    );
}

#[test]
fn malformed_type_information_is_an_error() {
    for bytes in [&b""[..], b"\x9f\xeb\x01\x00", b"not BTF at all, but long enough for a header"] {
        assert!(KernelBtf::from_bytes(bytes).is_err());
    }
    assert!(KernelBtf::from_path(Path::new("/proc/self/cmdline")).is_err());
}

#[test]
fn the_running_kernel_resolves() {
    let Ok(btf) = KernelBtf::load() else {
        eprintln!("skipped: {VMLINUX_BTF} is not there");
        return;
    };
    let offsets = KernelOffsets::resolve(&btf).unwrap();
    let tgid = btf.number("task_struct", "tgid", &[4]).unwrap();
    assert_eq!(tgid, offsets.task_pid + 4, "tgid follows pid in every kernel");
    assert!(btf.has_tracepoint("sched_process_fork"));
    assert_eq!(btf.tracepoint_arguments("sched_process_exec").unwrap(), 3);
    assert!(!btf.has_tracepoint("no_such_tracepoint"));
}
