//! What the recorder has to know of an x86-64 instruction, from its bytes.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, sections 2.1.1
//! (legacy prefixes) and 2.2.1 (REX), and the pages of LOCK, XCHG, REP and SYSCALL.

/// What an instruction is beside its accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It reads and writes memory atomically: with a LOCK prefix, or an exchange with memory.
    pub atomic: bool,
    /// It is a repeated string instruction.
    pub repeated: bool,
    /// It calls the operating system.
    pub system_call: bool,
}

impl Traits {
    /// The traits of the instruction that `bytes` begins with.
    pub fn of(bytes: &[u8]) -> Traits {
        let (mut lock, mut repeat) = (false, false);
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            match byte {
                0xf0 => lock = true,
                0xf2 | 0xf3 => repeat = true,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0x40..=0x4f => {}
                _ => break,
            }
            rest = after;
        }
        let opcode = rest.first().copied().unwrap_or(0);
        let with_memory = rest.get(1).is_some_and(|modrm| modrm >> 6 != 3);
        let exchange = matches!(opcode, 0x86 | 0x87) && with_memory;
        // INS, OUTS, MOVS, CMPS; STOS, LODS, SCAS.
        let string = matches!(opcode, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf);
        let system_call = rest.starts_with(&[0x0f, 0x05]);
        Traits { atomic: lock || exchange, repeated: repeat && string, system_call }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_and_repeated_instructions_are_told_by_their_bytes() {
        let atomic = Traits { atomic: true, ..Traits::default() };
        let repeated = Traits { repeated: true, ..Traits::default() };
        let system_call = Traits { system_call: true, ..Traits::default() };
        let plain = Traits::default();
        for (bytes, expected) in [
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f][..], atomic), // lock cmpxchg %rcx,(%rdi)
            (&[0x87, 0x07], atomic),                       // xchg %eax,(%rdi)
            (&[0x48, 0x87, 0xc3], plain),                  // xchg %rax,%rbx
            (&[0x64, 0xf0, 0xff, 0x00], atomic),           // lock incl %fs:(%rax)
            (&[0xf3, 0xa4], repeated),                     // rep movsb
            (&[0xf3, 0x48, 0xab], repeated),               // rep stosq
            (&[0xf2, 0xae], repeated),                     // repne scasb
            (&[0xa4], plain),                              // movsb
            (&[0xf3, 0x0f, 0x6f, 0x06], plain),            // movdqu (%rsi),%xmm0
            (&[0xf3, 0xc3], plain),                        // repz ret
            (&[0x0f, 0x05], system_call),                  // syscall
            (&[], plain),
        ] {
            assert_eq!(Traits::of(bytes), expected, "{bytes:x?}");
        }
    }
}
