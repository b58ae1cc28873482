//! Marks that a program gives about itself: an instruction that does nothing, and that the recorder
//! knows.
//!
//! The instruction is the seven-byte NOP with a displacement (Intel 64 and IA-32 Architectures
//! Software Developer's Manual, volume 2, NOP, "Recommended Multi-Byte Sequence of NOP
//! Instruction"), whose displacement, which is 0 where assemblers use it, holds [`MAGIC`] and the
//! mark. `python/tierscope/include/tierscope.h` writes the same for C and C++.

use tierscope_system::run::mark;

/// The displacement of mark 0: `TS` above the marks' bits.
pub const MAGIC: u32 = 0x5354_0000;
/// Bits that marks have.
const MARK_BITS: u32 = 16;
/// The NOP without its displacement: `nopl disp32(%rax)`.
const NOP: [u8; 3] = [0x0f, 0x1f, 0x80];

/// The mark that an instruction gives, if it is one that gives any.
pub fn given_by(instruction: &[u8]) -> Option<u64> {
    let displacement = instruction.strip_prefix(&NOP)?;
    let displacement = u32::from_le_bytes(displacement.try_into().ok()?);
    (displacement >> MARK_BITS == MAGIC >> MARK_BITS)
        .then(|| u64::from(displacement & ((1 << MARK_BITS) - 1)))
}

/// Gives a mark. Accesses of the program stay on the side of it where they were written.
macro_rules! give {
    ($mark:expr) => {
        // SAFETY: the instruction does nothing; it does not even access the address that it names.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                ".byte 0x0f, 0x1f, 0x80",
                ".long {}",
                const MAGIC + $mark as u32,
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Begins the region of interest of the program that calls this, where it is recorded; does nothing
/// where it is not.
#[inline]
pub fn begin_region() {
    give!(mark::START);
}

/// Ends the region of interest; see [`begin_region`].
#[inline]
pub fn end_region() {
    give!(mark::STOP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_told_from_other_instructions_that_do_nothing() {
        let with = |displacement: u32| [&NOP[..], &displacement.to_le_bytes()].concat();
        assert_eq!(given_by(&with(MAGIC + 1)), Some(1));
        assert_eq!(given_by(&with(MAGIC + 0xffff)), Some(0xffff));
        assert_eq!(given_by(&with(0)), None, "as assemblers fill space");
        assert_eq!(given_by(&with(MAGIC + 0x1_0000)), None);
        assert_eq!(given_by(&with(MAGIC + 1)[..6]), None);
        assert_eq!(given_by(&[0x90]), None);
        assert_eq!(given_by(&[]), None);
    }

    #[test]
    fn the_header_for_c_has_the_same_numbers() {
        let header = include_str!("../../../python/tierscope/include/tierscope.h");
        for line in [
            format!("#define TIERSCOPE_MAGIC {MAGIC:#x}"),
            format!("#define TIERSCOPE_ROI_BEGIN() TIERSCOPE_MARK({})", mark::START),
            format!("#define TIERSCOPE_ROI_END() TIERSCOPE_MARK({})", mark::STOP),
            format!("((n) >= 0 && (n) <= {:#x})", (1 << MARK_BITS) - 1),
        ] {
            assert!(header.contains(&line), "{line} in {header}");
        }
    }

    #[test]
    fn giving_a_mark_does_nothing_here() {
        begin_region();
        end_region();
    }
}
