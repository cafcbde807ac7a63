//! Decodes the counter function on 64-bit ARM. Only the handful of instructions a compiler needs for it are known:
//! page addresses (`adrp`, `adr`, `add`), one-word loads and stores, branches within the function, and arithmetic.
//! Encodings: Arm Architecture Reference Manual for A-profile, section C4.1.

use super::counter::{Accesses, CounterError};

const STACK_POINTER: usize = 31;

pub(super) fn decode(code: &[u8], address: u64) -> Result<u64, CounterError> {
    let mut accesses = Accesses::default();
    let function = address..address + code.len() as u64;
    // Addresses held by registers, where they follow from the code alone.
    let mut registers: [Option<u64>; 32] = [None; 32];
    for (at, word) in code.as_chunks().0.iter().enumerate() {
        let word = u32::from_le_bytes(*word);
        let pc = address.wrapping_add(4 * at as u64);
        let unexpected = |what: &str| Err(CounterError::Unexpected { at: pc, what: what.to_owned() });
        accesses.n_instructions += 1;
        let target = register(word, 0);
        let base = register(word, 5);
        match word {
            _ if word & 0xffff_fc1f == 0xd65f_0000 || word & 0xffff_fbff == 0xd65f_0bff => {
                return accesses.finish();
            }
            // Builds optimised for size loop over the wrap-around check.
            _ if word & 0xfc00_0000 == 0x1400_0000 && function.contains(&jump_target(word, pc)) => {}
            _ if word & 0x7c00_0000 == 0x1400_0000 => return unexpected("a jump or call"),
            _ if word & 0xfe00_0000 == 0xd600_0000 => return unexpected("a jump or call through a register"),
            // Conditional branches, and hints such as bti, paciasp and nop.
            _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7c00_0000 == 0x3400_0000 => {}
            _ if word & 0xffff_f01f == 0xd503_201f => {}
            _ if word & 0x9f00_0000 == 0x9000_0000 => {
                registers[target] = Some((pc & !0xfff).wrapping_add_signed(page_offset(word) << 12));
            }
            _ if word & 0x9f00_0000 == 0x1000_0000 => {
                registers[target] = Some(pc.wrapping_add_signed(page_offset(word)));
            }
            _ if word & 0xff80_0000 == 0x9100_0000 => {
                let shift = if word & 1 << 22 != 0 { 12 } else { 0 };
                registers[target] = registers[base].map(|value| value.wrapping_add(unsigned(word) << shift));
            }
            // A word at [base + 4 · immediate]: 0xb94… loads, 0xb90… stores.
            _ if word & 0xff80_0000 == 0xb900_0000 && base != STACK_POINTER => {
                let Some(value) = registers[base] else {
                    return unexpected("an access through a register of unknown value");
                };
                let load = word & 1 << 22 != 0;
                accesses.add(value.wrapping_add(4 * unsigned(word)), load, !load)?;
                if load {
                    registers[target] = None;
                }
            }
            _ if word & 0x0a00_0000 == 0x0800_0000 => {
                if base != STACK_POINTER {
                    return unexpected("a load or store of another form");
                }
                registers[target] = None;
                registers[register(word, 10)] = None;
            }
            _ => registers[target] = None,
        }
    }
    Err(CounterError::NoAccess { n_instructions: accesses.n_instructions })
}

fn register(word: u32, from_bit: u32) -> usize {
    (word >> from_bit & 31) as usize
}

/// Where an unconditional jump leads: its signed 26-bit immediate counts instructions.
fn jump_target(word: u32, pc: u64) -> u64 {
    pc.wrapping_add_signed(i64::from((word << 6) as i32 >> 4))
}

/// The unsigned 12-bit immediate of additions, loads and stores.
fn unsigned(word: u32) -> u64 {
    u64::from(word >> 10 & 0xfff)
}

/// The signed 21-bit immediate of `adr` and `adrp`.
fn page_offset(word: u32) -> i64 {
    let immediate = (word >> 5 & 0x7_ffff) << 2 | (word >> 29 & 3);
    i64::from((immediate << 11) as i32 >> 11)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x45_7640;

    fn check(words: &[u32], expected: Result<u64, CounterError>) {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(decode(&code, AT), expected);
    }

    #[test]
    fn page_address_and_offset() {
        check(
            &[
                0xd503_245f, // bti c
                0xb000_21e1, // adrp x1, #0x43d000
                0xb945_b820, // ldr w0, [x1, #1464]
                0x1100_0402, // add w2, w0, #1
                0x3500_0060, // cbnz w0, +12
                0x5280_0042, // mov w2, #2
                0x5280_0020, // mov w0, #1
                0xb905_b822, // str w2, [x1, #1464]
                0xd65f_03c0, // ret
            ],
            Ok(0x45_7000 + 0x43_d000 + 1464),
        );
    }

    #[test]
    fn address_built_in_a_register_behind_a_frame() {
        check(
            &[
                0xa9bf_7bfd, // stp x29, x30, [sp, #-16]!
                0x9100_03fd, // mov x29, sp
                0x9000_0080, // adrp x0, #0x10000
                0x9116_e000, // add x0, x0, #1464
                0xb940_0001, // ldr w1, [x0]
                0x1100_0422, // add w2, w1, #1
                0xb900_0002, // str w2, [x0]
                0xa8c1_7bfd, // ldp x29, x30, [sp], #16
                0xd65f_03c0, // ret
            ],
            Ok(0x45_7000 + 0x1_0000 + 1464),
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let unexpected =
            |at: u64, what: &str| Err(CounterError::Unexpected { at: AT + 4 * at, what: what.to_owned() });
        check(&[0x9400_0004], unexpected(0, "a jump or call"));
        check(&[0x1400_0004], unexpected(0, "a jump or call"));
        check(&[0x1400_0001], unexpected(0, "a jump or call"));
        check(&[0x17ff_ffff], unexpected(0, "a jump or call"));
        check(&[0xd503_201f, 0x17ff_ffff], Err(CounterError::NoAccess { n_instructions: 2 }));
        check(&[0xd61f_0200], unexpected(0, "a jump or call through a register"));
        // adrp x0; ldr x0, [x0, #8]: the address itself comes from memory.
        check(&[0x9000_0080, 0xf940_0400], unexpected(1, "a load or store of another form"));
        check(&[0xb940_0001], unexpected(0, "an access through a register of unknown value"));
        // adrp x0; mov w0, #1; ldr w1, [x0]: the page address is gone.
        check(
            &[0x9000_0080, 0x5280_0020, 0xb940_0001],
            unexpected(2, "an access through a register of unknown value"),
        );
        // adrp x0; ldadd w1, w2, [x0]
        check(&[0x9000_0080, 0xb821_0002], unexpected(1, "a load or store of another form"));
        check(&[0xd65f_03c0], Err(CounterError::NoAccess { n_instructions: 1 }));
        // A load without a store.
        check(&[0x9000_0080, 0xb940_0001, 0xd65f_03c0], Err(CounterError::NoAccess { n_instructions: 3 }));
    }
}
