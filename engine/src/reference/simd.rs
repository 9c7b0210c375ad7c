//! Hardware FMA where there is any, and threads over rows.

use std::ops::Range;

/// Work that shall be compiled for a CPU with fused multiply-add.
///
/// `f32::mul_add` is one rounding everywhere, but without the CPU's instruction it is a slow library call. On aarch64 the
/// instruction is always there; on x86-64 it is asked for at run time.
pub(super) trait Task {
    /// Does the work. Implementations are `#[inline(always)]`, so that they are compiled within [`with_fma`]'s own function.
    fn run(self);
}

/// Runs a task compiled for AVX2 and FMA if this CPU has them, and for the baseline otherwise. The results are the same.
pub(super) fn with_fma(task: impl Task) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn run(task: impl Task) {
            task.run();
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features that `run` is compiled for were found on this CPU.
            unsafe { run(task) };
            return;
        }
    }
    task.run();
}

/// Fills `out`, `rows` chunks of `per_row` values, on all cores: `work` is given a range of rows and their part of `out`.
pub(super) fn over_rows<T: Send>(
    rows: usize,
    per_row: usize,
    out: &mut [T],
    work: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    assert_eq!(out.len(), rows * per_row);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = rows.div_ceil(threads.min(rows).max(1)).max(1);
    if share >= rows {
        return work(0..rows, out);
    }
    std::thread::scope(|scope| {
        for (i, part) in out.chunks_mut(share * per_row).enumerate() {
            let work = &work;
            let from = i * share;
            scope.spawn(move || work(from..from + part.len() / per_row, part));
        }
    });
}

/// Rows of `cols` values to columns: out\[c\]\[r\] = x\[r\]\[c\].
pub(super) fn transpose<T: Copy + Default>(x: &[T], rows: usize, cols: usize) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    for (r, row) in x.chunks_exact(cols).take(rows).enumerate() {
        for (c, v) in row.iter().enumerate() {
            out[c * rows + r] = *v;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fused<'a>(f32, f32, f32, &'a mut f32);
    impl Task for Fused<'_> {
        #[inline(always)]
        fn run(self) {
            *self.3 = self.0.mul_add(self.1, self.2);
        }
    }

    /// (1+e)² - (1+2e) is e² when fused and 0 when the product is rounded first.
    #[test]
    fn multiply_add_rounds_once() {
        let e = 2f32.powi(-13);
        let mut y = 0.0;
        with_fma(Fused(1.0 + e, 1.0 + e, -(1.0 + 2.0 * e), &mut y));
        assert_eq!(y, e * e);
        assert_eq!((1.0 + e).mul_add(1.0 + e, -(1.0 + 2.0 * e)), e * e);
    }

    #[test]
    fn every_row_is_done_once() {
        for rows in [1, 2, 3, 7, 64] {
            let mut out = vec![0; rows * 3];
            over_rows(rows, 3, &mut out, |range, part| {
                for (r, row) in range.zip(part.chunks_exact_mut(3)) {
                    row.iter_mut().for_each(|v| *v += r + 1);
                }
            });
            assert!(out.iter().enumerate().all(|(i, v)| *v == i / 3 + 1));
        }
    }
}
