//! Where the server counts its local transactions. The counter is a static variable without a symbol; the exported
//! function that advances it (`GetNextLocalTransactionId`) is a few instructions long and touches nothing else, so
//! decoding it gives the address. Anything unexpected in there is an error, never a guess.

use super::{counter_aarch64, counter_x86};

/// The exported function that is decoded.
pub const FUNCTION: &str = "GetNextLocalTransactionId";

/// Instruction set of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// Why the counter's address could not be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// The function ended, or its bytes did, without an access to memory that changes the counter.
    #[error("{FUNCTION} does not load and store one static variable ({n_instructions} instructions decoded)")]
    NoAccess {
        /// Instructions decoded.
        n_instructions: usize,
    },
    /// More than one variable is used.
    #[error("{FUNCTION} uses two static variables, {first:#x} and {second:#x}")]
    Ambiguous {
        /// Address in the file's numbering.
        first: u64,
        /// Address in the file's numbering.
        second: u64,
    },
    /// An instruction of a kind that this function is not known to have.
    #[error("{FUNCTION} has an unexpected instruction at {at:#x}: {what}")]
    Unexpected {
        /// Address in the file's numbering.
        at: u64,
        /// What it is.
        what: String,
    },
}

/// Collects the accesses of the function.
#[derive(Default)]
pub(super) struct Accesses {
    address: Option<u64>,
    loads: bool,
    stores: bool,
    pub(super) n_instructions: usize,
}

impl Accesses {
    pub(super) fn add(&mut self, address: u64, load: bool, store: bool) -> Result<(), CounterError> {
        if let Some(first) = self.address.replace(address)
            && first != address
        {
            return Err(CounterError::Ambiguous { first, second: address });
        }
        self.loads |= load;
        self.stores |= store;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<u64, CounterError> {
        match self.address {
            Some(address) if self.loads && self.stores => Ok(address),
            _ => Err(CounterError::NoAccess { n_instructions: self.n_instructions }),
        }
    }
}

/// Decodes the function: `code` from its first byte, which lies at `address` in the file's numbering. The result is
/// the counter's address in the same numbering.
pub fn decode(machine: Machine, code: &[u8], address: u64) -> Result<u64, CounterError> {
    match machine {
        Machine::X86_64 => counter_x86::decode(code, address),
        Machine::Aarch64 => counter_aarch64::decode(code, address),
    }
}
