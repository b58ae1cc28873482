//! What the recorder has to know of an x86-64 instruction, from its bytes.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, sections 2.1.1
//! (legacy prefixes), 2.2.1 (REX), 2.3.5 (VEX) and 2.7.1 (EVEX), and the pages of LOCK, XCHG, REP, SYSCALL, MFENCE,
//! SFENCE, MOVNT,
//! CLFLUSH, CLFLUSHOPT and CLWB.

/// What an instruction is beside its accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It reads and writes memory atomically: with a LOCK prefix, or an exchange with memory.
    pub atomic: bool,
    /// It is a repeated string instruction.
    pub repeated: bool,
    /// It calls the operating system.
    pub system_call: bool,
    /// What it stores passes the caches by: MOVNTI, MOVNTQ, MOVNTDQ, MOVNTPS, MOVNTPD, and their forms with VEX
    /// and EVEX.
    pub non_temporal: bool,
    /// It is a fence, of stores alone (SFENCE) or not (MFENCE).
    pub fence: Option<Fence>,
    /// It flushes a line from the caches.
    pub flush: Option<Flush>,
}

/// How an instruction flushes a line: its place in [`crate::capture::FLUSHES`], from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// CLFLUSH.
    InOrder = 1,
    /// CLFLUSHOPT.
    InNoOrder = 2,
    /// CLWB.
    Keeping = 3,
}

/// Which accesses a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Stores.
    Stores,
    /// Loads and stores.
    All,
}

impl Traits {
    /// The traits of the instruction that `bytes` begins with.
    pub fn of(bytes: &[u8]) -> Traits {
        let (mut lock, mut repeat, mut narrow) = (false, false, false);
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            match byte {
                0xf0 => lock = true,
                0xf2 | 0xf3 => repeat = true,
                0x66 => narrow = true,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 | 0x40..=0x4f => {}
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
        // Opcodes of two bytes: 0F as such, in VEX of two and three bytes, and in EVEX.
        let (opcode, modrm) = match *rest {
            [0x0f, opcode, modrm, ..] | [0xc5, _, opcode, modrm, ..] => (opcode, modrm),
            [0xc4, map, _, opcode, modrm, ..] if map & 0x1f == 1 => (opcode, modrm),
            [0x62, map, _, _, opcode, modrm, ..] if map & 7 == 1 => (opcode, modrm),
            _ => (0, 0),
        };
        let moves = matches!(opcode, 0x2b | 0xe7) || rest.starts_with(&[0x0f, 0xc3]);
        let non_temporal = moves && modrm >> 6 != 3;
        // The whole byte behind the opcode says which; forms with memory are others.
        let fence = match rest {
            [0x0f, 0xae, 0xf0..=0xf7, ..] if !repeat && !narrow => Some(Fence::All),
            [0x0f, 0xae, 0xf8..=0xff, ..] if !repeat && !narrow => Some(Fence::Stores),
            _ => None,
        };
        let flush = match (rest, narrow) {
            ([0x0f, 0xae, modrm, ..], _) if repeat || modrm >> 6 == 3 => None,
            ([0x0f, 0xae, modrm, ..], false) if modrm >> 3 & 7 == 7 => Some(Flush::InOrder),
            ([0x0f, 0xae, modrm, ..], true) if modrm >> 3 & 7 == 7 => Some(Flush::InNoOrder),
            ([0x0f, 0xae, modrm, ..], true) if modrm >> 3 & 7 == 6 => Some(Flush::Keeping),
            _ => None,
        };
        Traits {
            atomic: lock || exchange,
            repeated: repeat && string,
            system_call,
            non_temporal,
            fence,
            flush,
        }
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
        let streams = Traits { non_temporal: true, ..Traits::default() };
        let fence = |fence| Traits { fence: Some(fence), ..Traits::default() };
        let flush = |flush| Traits { flush: Some(flush), ..Traits::default() };
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
            (&[0x0f, 0xc3, 0x07], streams),                // movnti %eax,(%rdi)
            (&[0x66, 0x0f, 0xe7, 0x07], streams),          // movntdq %xmm0,(%rdi)
            (&[0x44, 0x0f, 0x2b, 0x07], streams),          // movntps %xmm8,(%rdi)
            (&[0xc5, 0xfd, 0xe7, 0x07], streams),          // vmovntdq %ymm0,(%rdi)
            (&[0xc4, 0x41, 0x7c, 0x2b, 0x00], streams),    // vmovntps %ymm8,(%r8)
            (&[0x62, 0xf1, 0x7d, 0x48, 0xe7, 0x07], streams), // vmovntdq %zmm0,(%rdi)
            (&[0x66, 0x0f, 0x38, 0x2a, 0x07], plain),      // movntdqa (%rdi),%xmm0
            (&[0x0f, 0xc2, 0x07, 0x00], plain),            // cmpeqps (%rdi),%xmm0
            (&[0x0f, 0xae, 0xf0], fence(Fence::All)),      // mfence
            (&[0x0f, 0xae, 0xf8], fence(Fence::Stores)),   // sfence
            (&[0x0f, 0xae, 0xe8], plain),                  // lfence
            (&[0x0f, 0xae, 0x3f], flush(Flush::InOrder)),  // clflush (%rdi)
            (&[0x66, 0x41, 0x0f, 0xae, 0x38], flush(Flush::InNoOrder)), // clflushopt (%r8)
            (&[0x66, 0x0f, 0xae, 0x37], flush(Flush::Keeping)), // clwb (%rdi)
            (&[0x0f, 0xae, 0x37], plain),                  // xsaveopt (%rdi)
            (&[0x66, 0x0f, 0xae, 0xf7], plain),            // tpause %edi
            (&[0xf3, 0x0f, 0xae, 0xf0], plain),            // umonitor %rax
            (&[], plain),
        ] {
            assert_eq!(Traits::of(bytes), expected, "{bytes:x?}");
        }
    }
}
