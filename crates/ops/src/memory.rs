//! How this process asks for memory.

/// Makes all threads share one heap, where the C library is glibc. Called once, before any thread is started.
///
/// By default glibc gives each thread a heap of its own. A batch is made by one thread and freed by another, so that
/// each heap goes on growing and being given back, and the kernel clears the same pages again and again: a tenth of
/// all processor time of signed payments, and a fifth of the memory. Small pieces are kept by each thread apart from
/// the heap in any case, and large ones are few: one for a column of a batch.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    {
        use nix::libc::{M_ARENA_MAX, mallopt};
        // SAFETY: `mallopt` takes two numbers, and no other thread allocates yet.
        unsafe { mallopt(M_ARENA_MAX, 1) };
    }
}
