//! Which lines flushes of a program concern.
//!
//! Emulation makes no access of a flush, and tells no registers. Its address is known all the same where its
//! instruction has it, by itself or from the next instruction on, and where an access of the same block had the same
//! base and index, which nothing has written since: the difference is that of the displacements.

use super::instruction::Flush;
use super::registers::{Operand, RSP, Registers};

/// Accesses of a block from which flushes are reckoned, at most.
pub const ANCHORS: usize = 4;

/// Where a flush is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address.
    At(u64),
    /// So far behind the address of an access, which has this number.
    Behind {
        /// The access.
        anchor: usize,
        /// How far, in bytes.
        bytes: i32,
    },
    /// Nothing tells.
    Unknown,
}

/// An instruction of a block.
#[derive(Clone, Copy)]
pub struct One {
    /// The address of the next.
    pub next: u64,
    pub flush: Option<Flush>,
    pub operand: Option<Operand>,
    pub registers: Registers,
}

/// For each instruction of a block: the number of the anchor that it is, and where it flushes.
pub fn plan(block: &[One]) -> Vec<(Option<usize>, Option<Place>)> {
    let mut planned: Vec<(Option<usize>, Option<Place>)> = vec![(None, None); block.len()];
    let mut anchors = 0;
    for number in 0..block.len() {
        if block[number].flush.is_none() {
            continue;
        }
        let place = place(&block[..=number]);
        planned[number].1 = Some(match place {
            Found::At(address) => Place::At(address),
            Found::Behind { access, bytes } if planned[access].0.is_some() || anchors < ANCHORS => {
                let anchor = *planned[access].0.get_or_insert(anchors);
                anchors = anchors.max(anchor + 1);
                Place::Behind { anchor, bytes }
            }
            _ => Place::Unknown,
        });
    }
    planned
}

enum Found {
    At(u64),
    Behind { access: usize, bytes: i32 },
    Nothing,
}

/// Where the last instruction flushes.
fn place(block: &[One]) -> Found {
    let Some((flush, before)) = block.split_last() else { return Found::Nothing };
    let Some(operand) = flush.operand else { return Found::Nothing };
    let displacement = operand.displacement as i64 as u64;
    if operand.is_relative {
        return Found::At(flush.next.wrapping_add(displacement));
    }
    let registers = operand.base | operand.index;
    if registers == 0 {
        return Found::At(displacement);
    }
    // What pushes and pops make of the stack pointer is not followed.
    if registers & RSP != 0 {
        return Found::Nothing;
    }
    for (access, one) in before.iter().enumerate().rev() {
        if one.registers.written() & registers != 0 {
            break;
        }
        let same = |other: &Operand| {
            let (own, other) = (operand, *other);
            other.is_first
                && !other.is_relative
                && (own.base, own.index, own.scale) == (other.base, other.index, other.scale)
        };
        let behind = one
            .operand
            .filter(same)
            .map(|other| operand.displacement.checked_sub(other.displacement));
        if let Some(bytes) = behind.flatten() {
            return Found::Behind { access, bytes };
        }
    }
    Found::Nothing
}

#[cfg(test)]
mod tests {
    use super::super::instruction::Traits;
    use super::super::registers::operand;
    use super::*;

    fn places(code: &[&[u8]]) -> Vec<(Option<usize>, Option<Place>)> {
        let one = |bytes: &&[u8]| One {
            next: 0x1000,
            flush: Traits::of(bytes).flush,
            operand: operand(bytes),
            registers: Registers::of(bytes),
        };
        plan(&code.iter().map(one).collect::<Vec<_>>())
    }

    const STORE: &[u8] = &[0x48, 0x89, 0x47, 0x08]; // mov %rax,8(%rdi)
    const FLUSH: &[u8] = &[0x0f, 0xae, 0x3f]; // clflush (%rdi)
    const WRITE_BACK: &[u8] = &[0x66, 0x0f, 0xae, 0x77, 0x40]; // clwb 64(%rdi)
    const NEXT: &[u8] = &[0x48, 0x83, 0xc7, 64]; // add $64,%rdi

    #[test]
    fn a_flush_is_behind_an_access_by_the_same_registers() {
        let behind = |bytes| Some(Place::Behind { anchor: 0, bytes });
        let told = places(&[STORE, FLUSH, WRITE_BACK]);
        assert_eq!(told, [(Some(0), None), (None, behind(-8)), (None, behind(56))]);
        // vmovdqu %ymm0,(%rdi,%rcx,8), clflushopt 32(%rdi,%rcx,8)
        let wide: &[&[u8]] =
            &[&[0xc5, 0xfe, 0x7f, 0x04, 0xcf], &[0x66, 0x0f, 0xae, 0x7c, 0xcf, 32]];
        assert_eq!(places(wide), [(Some(0), None), (None, behind(32))]);
        let instructions: [&[u8]; 2] =
            [&[0x0f, 0xae, 0x3d, 0x10, 0, 0, 0], &[0x0f, 0xae, 0x3c, 0x25, 0, 1, 0, 0]];
        // clflush 16(%rip), clflush 256
        assert_eq!(
            places(&instructions),
            [(None, Some(Place::At(0x1010))), (None, Some(Place::At(0x100)))]
        );
    }

    #[test]
    fn nothing_tells_of_other_registers_or_of_what_was_written_since() {
        let unknown = Some(Place::Unknown);
        for code in [
            &[FLUSH][..],
            &[NEXT, FLUSH],
            &[STORE, NEXT, FLUSH],
            &[&[0x48, 0x8b, 0x3f], FLUSH],       // mov (%rdi),%rdi
            &[&[0x48, 0x8d, 0x07], FLUSH],       // lea (%rdi),%rax
            &[&[0x48, 0x89, 0x06], FLUSH],       // mov %rax,(%rsi)
            &[&[0x48, 0x89, 0x04, 0x0f], FLUSH], // mov %rax,(%rdi,%rcx)
            &[&[0x64, 0x48, 0x89, 0x07], FLUSH], // mov %rax,%fs:(%rdi)
            &[&[0x67, 0x48, 0x89, 0x07], FLUSH], // mov %rax,(%edi)
            &[STORE, &[0x48, 0xab], FLUSH],      // stos
            &[STORE, &[0x40, 0xb7, 1], FLUSH],   // mov $1,%dil
            &[&[0x48, 0x89, 0x04, 0x24], &[0x0f, 0xae, 0x3c, 0x24]], // mov %rax,(%rsp); clflush (%rsp)
        ] {
            let told = places(code);
            assert_eq!(told.last().map(|(_, place)| *place), Some(unknown), "{code:02x?}");
            assert!(told.iter().all(|(anchor, _)| anchor.is_none()), "{code:02x?}");
        }
        let far: Vec<[u8; 4]> = (0..6).map(|n| [0x48, 0x89, 0x40 | n, 0]).collect();
        let mut code: Vec<&[u8]> = Vec::new();
        // mov %rax,0(%rax…) of one register each; of the stack's there is another byte.
        let flushes: Vec<[u8; 3]> = (0..6).map(|n| [0x0f, 0xae, 0x38 | n]).collect();
        let usable = [0usize, 1, 2, 3];
        usable.iter().for_each(|n| code.extend([&far[*n][..], &flushes[*n][..]]));
        code.extend([STORE, FLUSH]);
        let told = places(&code);
        assert_eq!(told.iter().filter_map(|(anchor, _)| *anchor).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(told.last(), Some(&(None, unknown)), "there are so many anchors");
    }
}
