//! Decodes the counter function on x86-64.

use iced_x86::{Decoder, DecoderOptions, Instruction, MemorySize, Mnemonic, OpKind, Register};

use super::counter::{Accesses, CounterError};

pub(super) fn decode(code: &[u8], address: u64) -> Result<u64, CounterError> {
    let mut accesses = Accesses::default();
    let function = address..address + code.len() as u64;
    for instruction in Decoder::with_ip(64, code, address, DecoderOptions::NONE).iter() {
        let unexpected = |what: String| Err(CounterError::Unexpected { at: instruction.ip(), what });
        accesses.n_instructions += 1;
        match instruction.mnemonic() {
            Mnemonic::INVALID => return unexpected("not an instruction".to_owned()),
            Mnemonic::Ret => return accesses.finish(),
            // Builds optimised for size loop over the wrap-around check.
            Mnemonic::Jmp if function.contains(&instruction.near_branch_target()) => continue,
            // A tail call or an instrumented build: the accesses are somewhere else.
            Mnemonic::Call | Mnemonic::Jmp => return unexpected(format!("{:?}", instruction.mnemonic())),
            Mnemonic::Nop | Mnemonic::Lea => continue,
            _ => {}
        }
        if !has_memory_operand(&instruction) {
            continue;
        }
        let Some(target) = target(&instruction) else { continue };
        let Some(target) = target else {
            return unexpected(format!("{:?} through a register", instruction.mnemonic()));
        };
        if !matches!(instruction.memory_size(), MemorySize::UInt32 | MemorySize::Int32) {
            return unexpected(format!("{:?} of {:?}", instruction.mnemonic(), instruction.memory_size()));
        }
        let (load, store) = match (instruction.mnemonic(), instruction.op0_kind()) {
            (Mnemonic::Mov, OpKind::Memory) => (false, true),
            (Mnemonic::Cmp | Mnemonic::Test, _) => (true, false),
            (_, OpKind::Memory) => (true, true),
            (Mnemonic::Xadd | Mnemonic::Xchg, _) => (true, true),
            _ => (true, false),
        };
        accesses.add(target, load, store)?;
    }
    Err(CounterError::NoAccess { n_instructions: accesses.n_instructions })
}

fn has_memory_operand(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory)
}

/// The static address an operand refers to; `Some(None)` = one that only the running program knows, `None` = the
/// function's own stack.
fn target(instruction: &Instruction) -> Option<Option<u64>> {
    if instruction.segment_prefix() != Register::None {
        return Some(None);
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(Some(instruction.ip_rel_memory_address()));
    }
    match (instruction.memory_base(), instruction.memory_index()) {
        (Register::None, Register::None) => Some(Some(instruction.memory_displacement64())),
        (Register::RSP | Register::RBP, Register::None) => None,
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x457640;

    fn check(code: &[u8], expected: &Result<u64, CounterError>) {
        assert_eq!(&decode(code, AT), expected);
    }

    #[test]
    fn load_and_store_of_one_word() {
        // mov eax,[rip+0x434f82]; lea edx,[rax+1]; test eax,eax; jne +0xa; mov edx,2; mov eax,1;
        // mov [rip+0x434f6b],edx; ret
        let code = b"\x8b\x05\x82\x4f\x43\x00\x8d\x50\x01\x85\xc0\x75\x0a\xba\x02\0\0\0\xb8\x01\0\0\0\
                     \x89\x15\x6b\x4f\x43\x00\xc3";
        check(code, &Ok(0x88_c5c8));
        // The same behind endbr64 and a frame: the addresses move with the code.
        let framed = [b"\xf3\x0f\x1e\xfa\x55\x48\x89\xe5", &code[..]].concat();
        check(&framed, &Ok(0x88_c5d0));
    }

    #[test]
    fn jumps_within_the_function() {
        // mov eax,[rip+0x6828f7]; test eax,eax; lea edx,[rax+1]; jne +7; mov eax,1; jmp -0xe;
        // mov [rip+0x6828e3],edx; ret
        let code = b"\x8b\x05\xf7\x28\x68\0\x85\xc0\x8d\x50\x01\x75\x07\xb8\x01\0\0\0\xeb\xf2\
                     \x89\x15\xe3\x28\x68\0\xc3";
        check(code, &Ok(AT + 0x68_28fd));
    }

    #[test]
    fn read_modify_write_counts_as_both() {
        // mov eax,[rip+0x100]; add dword [rip+0xf9],1; ret
        check(b"\x8b\x05\x00\x01\0\0\x83\x05\xf9\0\0\0\x01\xc3", &Ok(AT + 0x106));
        // inc dword [0x900000]; ret, as in a non-PIE build
        check(b"\xff\x04\x25\0\0\x90\0\xc3", &Ok(0x90_0000));
    }

    #[test]
    fn unoptimised_code_may_use_its_stack() {
        // mov eax,[rip+0x10]; mov [rbp-4],eax; mov [rip+7],eax; ret
        check(b"\x8b\x05\x10\0\0\0\x89\x45\xfc\x89\x05\x07\0\0\0\xc3", &Ok(AT + 0x16));
    }

    #[test]
    fn anything_else_is_refused() {
        let unexpected =
            |at, what: &str| Err(CounterError::Unexpected { at: AT + at, what: what.to_owned() });
        check(b"\xe8\0\0\0\0\xc3", &unexpected(0, "Call"));
        check(b"\xe9\0\0\0\0", &unexpected(0, "Jmp"));
        check(b"\x8b\x07\xc3", &unexpected(0, "Mov through a register"));
        check(b"\x48\x8b\x05\x10\0\0\0\xc3", &unexpected(0, "Mov of UInt64"));
        check(b"\x8b\x05\x10\0\0\0\xc3", &Err(CounterError::NoAccess { n_instructions: 2 }));
        check(b"\xc3", &Err(CounterError::NoAccess { n_instructions: 1 }));
        check(b"", &Err(CounterError::NoAccess { n_instructions: 0 }));
        check(
            b"\x8b\x05\x10\0\0\0\x89\x05\x10\0\0\0\xc3",
            &Err(CounterError::Ambiguous { first: AT + 0x16, second: AT + 0x1c }),
        );
        assert!(decode(b"\x06\x06\xc3", AT).is_err(), "not an instruction in 64-bit mode");
    }
}
