//! Offsets and tracepoint prototypes from the kernel's own type information. Nothing is baked in and nothing has a
//! default: a member that is not there is an error that names it.

use std::path::{Path, PathBuf};

use btf_rs::{Backend, Btf, BtfType, Struct, Type};

/// Where the kernel publishes its types.
pub const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Typedefs, qualifiers and anonymous members followed before a chain is taken for malformed.
const MAX_DEPTH: u32 = 16;

/// Why something could not be resolved from BTF.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// No type information could be read.
    #[error(
        "the kernel's type information could not be read from {}: a kernel built with CONFIG_DEBUG_INFO_BTF=y \
         is needed (check: grep CONFIG_DEBUG_INFO_BTF /boot/config-$(uname -r))",
        path.display()
    )]
    Unreadable {
        /// The file tried.
        path: PathBuf,
        /// What reading or parsing it said.
        #[source]
        source: btf_rs::Error,
    },
    /// A structure is not there.
    #[error("struct {structure} is not in the kernel's type information")]
    StructMissing {
        /// Its name.
        structure: String,
    },
    /// A member is not there.
    #[error("struct {structure} of this kernel has no member {member}")]
    MemberMissing {
        /// The structure searched, anonymous members included.
        structure: String,
        /// The name looked for.
        member: String,
    },
    /// A member cannot be read as a whole number of bytes.
    #[error("member {member} of struct {structure} is a bit field in this kernel")]
    BitField {
        /// The structure.
        structure: String,
        /// The member.
        member: String,
    },
    /// A member has another width than the probes read.
    #[error("{path} is {found} bytes wide in this kernel, {needed} are needed")]
    Width {
        /// Structure and member.
        path: String,
        /// Bytes found; 0 = not a number.
        found: u64,
        /// Widths the probes can read, bytes.
        needed: String,
    },
    /// A member is no pointer to the structure the probes follow it to.
    #[error("{path} of this kernel does not point to a struct {needed}")]
    NoPointer {
        /// Structure and member.
        path: String,
        /// The structure it has to point to.
        needed: String,
    },
    /// A value is not in its enumeration.
    #[error("enum {enumeration} of this kernel has no {name}")]
    EnumeratorMissing {
        /// The enumerations searched.
        enumeration: String,
        /// The name looked for.
        name: String,
    },
    /// A tracepoint is not there.
    #[error("the kernel has no BTF tracepoint {name}")]
    TracepointMissing {
        /// Its name.
        name: String,
    },
    /// A tracepoint passes other arguments than those known.
    #[error(
        "the kernel's tracepoint {name} passes {found} arguments of unknown meaning ({needed} are known)"
    )]
    Prototype {
        /// The tracepoint.
        name: String,
        /// Number of arguments found.
        found: usize,
        /// Forms understood.
        needed: &'static str,
    },
    /// The type information contradicts itself.
    #[error("the kernel's type information is malformed at {what}")]
    Malformed {
        /// Where.
        what: String,
    },
}

/// A kernel's type information.
pub struct KernelBtf {
    btf: Btf,
}

/// Offsets in `task_struct` the probes read, bytes, and the form of `sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOffsets {
    /// `pid`, 4 bytes.
    pub task_pid: u32,
    /// `__state`, or `state` before kernel 5.14; the low 4 bytes count.
    pub task_state: u32,
    /// `sched_info.run_delay`, 8 bytes, ns.
    pub task_run_delay: u32,
    /// `sched_info.last_arrival`, 8 bytes, ns.
    pub task_last_arrival: u32,
    /// Number of the system call in `pt_regs`, the low 4 bytes count; `None` before kernel 5.15, which offers no
    /// `bpf_task_pt_regs`.
    pub registers_syscall: Option<u32>,
    /// `ioac.syscw`, 8 bytes: write calls that returned; `None` in kernels built without CONFIG_TASK_XACCT.
    pub task_writes: Option<u32>,
    /// Whether `sched_switch` passes the previous task's state as its fourth argument (kernel 5.18 and later).
    pub state_is_argument: bool,
}

impl KernelOffsets {
    /// Resolves all of them; the first that is missing is the error.
    pub fn resolve(btf: &KernelBtf) -> Result<Self, BtfError> {
        Ok(Self {
            task_pid: btf.number("task_struct", "pid", &[4])?,
            task_state: btf.task_state()?,
            task_run_delay: btf.number("task_struct", "sched_info.run_delay", &[8])?,
            task_last_arrival: btf.number("task_struct", "sched_info.last_arrival", &[8])?,
            registers_syscall: btf.registers_syscall(),
            task_writes: btf.number("task_struct", "ioac.syscw", &[8]).ok(),
            state_is_argument: btf.state_is_argument()?,
        })
    }
}

impl KernelBtf {
    /// Reads the running kernel's.
    pub fn load() -> Result<Self, BtfError> {
        Self::from_path(Path::new(VMLINUX_BTF))
    }

    /// Reads a raw BTF file.
    pub fn from_path(path: &Path) -> Result<Self, BtfError> {
        // A mapping costs 1 ms and no memory where sysfs allows it (kernel 6.16 and later); parsing all of it
        // 93 ms and 40 MB (measured with 5.5 MB of BTF).
        Btf::from_file_with_backend(path, Backend::Mmap)
            .or_else(|_| Btf::from_file(path))
            .map(|btf| Self { btf })
            .map_err(|source| BtfError::Unreadable { path: path.to_owned(), source })
    }

    /// Parses raw BTF.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BtfError> {
        Btf::from_bytes(bytes)
            .map(|btf| Self { btf })
            .map_err(|source| BtfError::Unreadable { path: PathBuf::from("memory"), source })
    }

    /// Whether the kernel has a tracepoint that BTF-typed programs can attach to.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoint(name).is_ok()
    }

    /// How many arguments a tracepoint passes, not counting the context pointer in front of them.
    pub fn tracepoint_arguments(&self, name: &str) -> Result<usize, BtfError> {
        Ok(self.tracepoint(name)?.len())
    }

    /// Whether `sched_switch` passes the previous task's state. The two forms known are (preempt, prev, next) and
    /// (preempt, prev, next, prev_state).
    pub fn state_is_argument(&self) -> Result<bool, BtfError> {
        let name = "sched_switch";
        let arguments = self.tracepoint(name)?;
        let is_task = |at: usize| matches!(arguments.get(at), Some(Type::Ptr(_)));
        let is_number = |at: usize| matches!(arguments.get(at), Some(Type::Int(_)));
        match arguments.len() {
            3 if is_task(1) && is_task(2) => Ok(false),
            4 if is_task(1) && is_task(2) && is_number(3) => Ok(true),
            found => Err(BtfError::Prototype {
                name: name.to_owned(),
                found,
                needed: "preempt, prev, next and, since 5.18, prev_state",
            }),
        }
    }

    /// Offset of a member, bytes. `path` may lead through nested structures (`a.b`); anonymous ones need no name.
    /// `widths` are the sizes in bytes the caller can read.
    pub fn number(&self, structure: &str, path: &str, widths: &[u64]) -> Result<u32, BtfError> {
        let (offset, member) = self.member(structure, path)?;
        let found = match member {
            Type::Int(int) => int.size() as u64,
            _ => 0,
        };
        if widths.contains(&found) {
            return Ok(offset);
        }
        let needed = widths.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ");
        Err(BtfError::Width { path: format!("{structure}.{path}"), found, needed })
    }

    fn task_state(&self) -> Result<u32, BtfError> {
        // Renamed with its narrowing from long to unsigned int in 5.14:
        // https://github.com/torvalds/linux/blob/v5.14/include/linux/sched.h#L661
        match self.number("task_struct", "__state", &[4]) {
            Err(BtfError::MemberMissing { .. }) => self.number("task_struct", "state", &[8]),
            other => other,
        }
    }

    /// x86-64 keeps it beside the registers as `orig_ax`, aarch64 as `syscallno`.
    fn registers_syscall(&self) -> Option<u32> {
        let helper = self.named("bpf_func_id").ok()?.into_iter().any(|found| match found {
            Type::Enum(found) => found.members.iter().any(|member| {
                self.btf.resolve_name(member).is_ok_and(|name| name == "BPF_FUNC_task_pt_regs")
            }),
            _ => false,
        });
        let number = || {
            self.number("pt_regs", "orig_ax", &[8])
                .or_else(|_| self.number("pt_regs", "syscallno", &[4]))
                .ok()
        };
        helper.then(number).flatten()
    }

    fn member(&self, structure: &str, path: &str) -> Result<(u32, Type), BtfError> {
        let mut name = structure.to_owned();
        let mut at = Some(self.find_struct(structure)?);
        let mut offset_bits = 0;
        let mut last = Type::Void;
        for step in path.split('.') {
            let missing = || BtfError::MemberMissing { structure: name.clone(), member: step.to_owned() };
            let within = at.take().ok_or_else(missing)?;
            let found = self.find_member(&within, step, 0)?.ok_or_else(missing)?;
            if found.is_bit_field || !found.offset_bits.is_multiple_of(8) {
                return Err(BtfError::BitField { structure: name, member: step.to_owned() });
            }
            offset_bits += found.offset_bits;
            if let Type::Struct(inner) | Type::Union(inner) = &found.kind {
                at = Some(inner.clone());
            }
            last = found.kind;
            name = format!("{name}.{step}");
        }
        Ok((offset_bits / 8, last))
    }

    /// Offset of a member that points to a given structure, bytes.
    pub fn pointer(&self, structure: &str, path: &str, to: &str) -> Result<u32, BtfError> {
        let (offset, member) = self.member(structure, path)?;
        if self.points_to(&member, to)? {
            return Ok(offset);
        }
        let path = format!("{structure}.{path}");
        Err(BtfError::NoPointer { path, needed: to.to_owned() })
    }

    /// Whether the arguments of a tracepoint begin with pointers to these structures.
    pub fn passes(&self, tracepoint: &str, structures: &[&str]) -> Result<bool, BtfError> {
        let arguments = self.tracepoint(tracepoint)?;
        for (at, structure) in structures.iter().enumerate() {
            let Some(argument) = arguments.get(at) else { return Ok(false) };
            if !self.points_to(argument, structure)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Value of an enumerator, in whichever of the enumerations that have been its home.
    pub fn enumerator(&self, enumerations: &[&str], name: &str) -> Result<u32, BtfError> {
        for enumeration in enumerations {
            for found in self.named(enumeration)? {
                let Type::Enum(found) = found else { continue };
                for member in &found.members {
                    if self.btf.resolve_name(member).map_err(|_| malformed(enumeration))? == name {
                        return Ok(member.val());
                    }
                }
            }
        }
        let structure = enumerations.join(" or ");
        Err(BtfError::EnumeratorMissing { enumeration: structure, name: name.to_owned() })
    }

    fn points_to(&self, kind: &Type, structure: &str) -> Result<bool, BtfError> {
        let Type::Ptr(pointer) = kind else { return Ok(false) };
        let Type::Struct(found) = self.resolve(pointer)? else { return Ok(false) };
        Ok(self.btf.resolve_name(&found).map_err(|_| malformed(structure))? == structure)
    }

    fn find_struct(&self, name: &str) -> Result<Struct, BtfError> {
        self.named(name)?
            .into_iter()
            .find_map(|found| match found {
                Type::Struct(found) => Some(found),
                _ => None,
            })
            .ok_or_else(|| BtfError::StructMissing { structure: name.to_owned() })
    }

    fn find_member(&self, within: &Struct, name: &str, depth: u32) -> Result<Option<Member>, BtfError> {
        if depth > MAX_DEPTH {
            return Err(malformed(name));
        }
        for member in &within.members {
            let member_name = self.btf.resolve_name(member).map_err(|_| malformed(name))?;
            if member_name == name {
                let kind = self.resolve(member)?;
                let is_bit_field = member.bitfield_size().is_some_and(|bits| bits > 0);
                return Ok(Some(Member { offset_bits: member.bit_offset(), is_bit_field, kind }));
            }
            if !member_name.is_empty() {
                continue;
            }
            if let Type::Struct(inner) | Type::Union(inner) = self.resolve(member)?
                && let Some(found) = self.find_member(&inner, name, depth + 1)?
            {
                return Ok(Some(Member { offset_bits: member.bit_offset() + found.offset_bits, ..found }));
            }
        }
        Ok(None)
    }

    /// Types of the arguments of a tracepoint, behind the context pointer.
    fn tracepoint(&self, name: &str) -> Result<Vec<Type>, BtfError> {
        let typedef = format!("btf_trace_{name}");
        let found = self.named(&typedef)?.into_iter().find(|found| matches!(found, Type::Typedef(_)));
        let Some(Type::Typedef(found)) = found else {
            return Err(BtfError::TracepointMissing { name: name.to_owned() });
        };
        let Type::Ptr(pointer) = self.resolve(&found)? else { return Err(malformed(&typedef)) };
        let Type::FuncProto(prototype) = self.resolve(&pointer)? else { return Err(malformed(&typedef)) };
        prototype.parameters.iter().skip(1).map(|parameter| self.resolve(parameter)).collect()
    }

    fn named(&self, name: &str) -> Result<Vec<Type>, BtfError> {
        self.btf.resolve_types_by_name(name).map_err(|_| malformed(name))
    }

    /// The type referred to, behind typedefs and qualifiers.
    fn resolve(&self, from: &dyn BtfType) -> Result<Type, BtfError> {
        let mut found = self.btf.resolve_chained_type(from).map_err(|_| malformed("a type reference"))?;
        for _ in 0..MAX_DEPTH {
            let next = match &found {
                Type::Typedef(inner) => self.btf.resolve_chained_type(inner),
                Type::Volatile(inner) | Type::Const(inner) | Type::Restrict(inner) => {
                    self.btf.resolve_chained_type(inner)
                }
                Type::TypeTag(inner) => self.btf.resolve_chained_type(inner),
                _ => return Ok(found),
            };
            found = next.map_err(|_| malformed("a type reference"))?;
        }
        Err(malformed("a chain of typedefs"))
    }
}

struct Member {
    offset_bits: u32,
    is_bit_field: bool,
    kind: Type,
}

fn malformed(what: &str) -> BtfError {
    BtfError::Malformed { what: what.to_owned() }
}

#[cfg(test)]
#[path = "btf_tests.rs"]
mod tests;
