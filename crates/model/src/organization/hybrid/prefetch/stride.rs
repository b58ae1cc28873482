//! Strides.

use super::Run;

/// Pages farther apart are of different streams (our choice: a stride of 64 pages of 4 KiB is 256 KiB).
const FARTHEST: u64 = 64;

/// One stream: where it was last, and how far from there it is expected next.
#[derive(Clone, Copy, Debug)]
struct Stream {
    last: u64,
    /// 0 while it has been seen once.
    stride: i64,
}

/// Streams with strides. No program counter comes to a memory controller, so a page is of the stream
/// that expects it, else of the one that is nearest, from which its distance is the stride that is
/// expected from then on (minimum delta: Palacharla & Kessler, ISCA 1994).
#[derive(Clone, Debug)]
pub(super) struct Strides {
    /// The last used first.
    streams: Vec<Stream>,
    most: usize,
}

impl Strides {
    pub(super) fn new(most: usize) -> Self {
        Strides { streams: Vec::with_capacity(most), most }
    }

    /// A page was missed, or a prefetched one `used`.
    pub(super) fn seen(&mut self, page: u64, pages: u64, used: bool) -> Option<Run> {
        let expects =
            |s: &Stream| s.stride != 0 && s.last.checked_add_signed(s.stride) == Some(page);
        if let Some(at) = self.streams.iter().position(expects) {
            let Stream { stride, .. } = self.streams.remove(at);
            self.streams.insert(0, Stream { last: page, stride });
            let (nth, left) = if used { (pages, 1) } else { (1, pages) };
            return Run::behind(page, stride, nth, left);
        }
        let near = |stream: &&(usize, u64)| stream.1 > 0 && stream.1 <= FARTHEST;
        let distances: Vec<_> =
            self.streams.iter().map(|stream| stream.last.abs_diff(page)).enumerate().collect();
        let nearest = distances.iter().filter(near).min_by_key(|(_, distance)| *distance);
        let stride = match nearest {
            Some(&(at, _)) => page as i64 - self.streams.remove(at).last as i64,
            None => {
                if self.streams.len() == self.most {
                    self.streams.pop();
                }
                0
            }
        };
        self.streams.insert(0, Stream { last: page, stride });
        None
    }
}
