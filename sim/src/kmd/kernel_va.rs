//! Addresses for the driver's own objects (`panthor_vm_alloc_va`): the kernel's range allocator as far as it decides which
//! address a client sees (`drm_mm.c` with DRM_MM_INSERT_BEST: the smallest hole that fits; of equals, the newest).

use std::collections::BTreeMap;

use panthor_uapi::Errno;

/// A range of addresses of which pieces are taken.
#[derive(Debug, Default)]
pub struct KernelSpace {
    /// What is taken: sizes by start.
    taken: BTreeMap<u64, u64>,
    /// What is free.
    holes: BTreeMap<u64, Hole>,
    stamp: u64,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    size: u64,
    /// When it came to be.
    stamp: u64,
}

impl KernelSpace {
    /// `size` bytes from `start`, all free.
    pub fn new(start: u64, size: u64) -> Self {
        let mut space = Self::default();
        space.add_hole(start, size);
        space
    }

    fn add_hole(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.stamp += 1;
            let stamp = self.stamp;
            self.holes.insert(start, Hole { size, stamp });
        }
    }

    /// Takes `size` bytes at a multiple of `align` (`drm_mm_insert_node_in_range`): ENOSPC where there is no room.
    pub fn take(&mut self, size: u64, align: u64) -> Result<u64, Errno> {
        let fits = |(&start, hole): (&u64, &Hole)| {
            let at = start.checked_next_multiple_of(align)?;
            let end = at.checked_add(size)?;
            (size > 0 && end <= start + hole.size).then_some((start, *hole, at))
        };
        let best = self
            .holes
            .iter()
            .filter_map(fits)
            .min_by_key(|(_, hole, _)| (hole.size, std::cmp::Reverse(hole.stamp)));
        let (start, hole, at) = best.ok_or(Errno::NOSPC)?;
        self.holes.remove(&start);
        self.add_hole(start, at - start);
        self.add_hole(at + size, start + hole.size - (at + size));
        self.taken.insert(at, size);
        Ok(at)
    }

    /// Gives back what starts at `at` (`drm_mm_remove_node`).
    pub fn give_back(&mut self, at: u64) {
        let Some(size) = self.taken.remove(&at) else {
            return;
        };
        let (mut start, mut end) = (at, at + size);
        if let Some(behind) = self.holes.remove(&end) {
            end += behind.size;
        }
        let before = self.holes.range(..at).next_back();
        let before = before.map(|(&start, hole)| (start, hole.size));
        if let Some((before, _)) = before.filter(|(start, size)| start + size == at) {
            self.holes.remove(&before);
            start = before;
        }
        self.add_hole(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hole_is_taken_and_of_equals_the_newest() {
        let mut space = KernelSpace::new(0x1000, 0x10_0000);
        let ranges = [
            (0x1000, 1),
            (0x2000, 1),
            (0x3000, 2),
            (0x5000, 1),
            (0x6000, 1),
        ];
        for (expected, pages) in ranges {
            assert_eq!(space.take(pages * 0x1000, 0x1000), Ok(expected));
        }
        space.give_back(0x5000);
        space.give_back(0x1000);
        assert_eq!(space.take(0x1000, 0x1000), Ok(0x1000), "the newest");
        space.give_back(0x3000);
        // 0x3000 to 0x6000 is one hole now.
        assert_eq!(space.take(0x3000, 0x1000), Ok(0x3000));
        assert_eq!(space.take(0x1000, 0x1000), Ok(0x7000));
        assert_eq!(space.take(0x20_0000, 0x1000), Err(Errno::NOSPC));
        assert_eq!(space.take(0x1000, 0x10000), Ok(0x10000));
        assert_eq!(
            space.take(0x1000, 0x1000),
            Ok(0x8000),
            "the gap before an aligned one"
        );
    }
}
