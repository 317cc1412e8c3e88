//! Asking the processor to bring a value near before it is needed.

/// Hints that `value` is used soon. Changes nothing but speed; does nothing on processors not known here.
#[inline(always)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86_64 (SSE), reads nothing the program can see, and the
        // reference is valid, although even an invalid address would be ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
