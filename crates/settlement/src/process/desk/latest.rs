//! How far the sequence goes now, for those who ask for the latest balances. Whoever asks meanwhile shares the answer to
//! the next question.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

/// Asks the cluster for the end of the sequence, one question at a time.
pub(super) struct Latest {
    ask: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    rounds: Mutex<Rounds>,
    answered: Condvar,
}

#[derive(Default)]
struct Rounds {
    /// Questions begun, and the last that was answered or given up.
    begun: u64,
    ended: u64,
    /// The answer to the last question; none if it had none.
    end: Option<u64>,
}

const LOCK: &str = "nobody panics while a question is begun or ended";

impl Latest {
    pub(super) fn new(ask: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { ask: Box::new(ask), rounds: Mutex::default(), answered: Condvar::new() }
    }

    /// The end of the sequence at some moment after this call; none where the cluster does not say before `deadline`.
    pub(super) fn end(&self, deadline: Instant) -> Option<u64> {
        let mut rounds = self.rounds.lock().expect(LOCK);
        // The answer to a question that was begun before may be of before.
        let wanted = rounds.begun + 1;
        while rounds.ended < wanted {
            if rounds.begun == rounds.ended {
                rounds.begun += 1;
                drop(rounds);
                let end = (self.ask)();
                rounds = self.rounds.lock().expect(LOCK);
                (rounds.ended, rounds.end) = (rounds.begun, end);
                self.answered.notify_all();
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            rounds = self.answered.wait_timeout(rounds, left).expect(LOCK).0;
        }
        rounds.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn an_answer_is_of_after_the_question_and_shared() {
        let (end, asked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (now, count) = (Arc::clone(&end), Arc::clone(&asked));
        let latest = Latest::new(move || {
            let end = now.load(Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            Some(end)
        });
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let before = end.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(latest.end(soon()).is_some_and(|end| end >= before));
                    }
                });
            }
        });
        let asked = asked.load(Ordering::SeqCst);
        assert!(asked < 400, "{asked} questions for 400 who asked");
    }

    #[test]
    fn who_is_not_answered_knows_nothing_and_asks_again() {
        let answers = Mutex::new(vec![Some(7), None]);
        let latest = Latest::new(move || answers.lock().unwrap().pop().unwrap());
        assert_eq!(latest.end(soon()), None);
        assert_eq!(latest.end(soon()), Some(7));
    }
}
