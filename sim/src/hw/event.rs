//! What the model still has to do: events in simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in order of their time, in nanoseconds of the guest's clock; of those at the same time the one that was asked
/// for first. Nothing else decides the order, so that a run can be repeated.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    asked: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: u64,
    number: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            asked: 0,
        }
    }
}

impl<T> EventQueue<T> {
    /// Lets `event` happen at `at`. A time of `u64::MAX` is never.
    pub fn push(&mut self, at: u64, event: T) {
        if at == u64::MAX {
            return;
        }
        let number = self.asked;
        self.asked += 1;
        self.heap.push(Reverse(Entry { at, number, event }));
    }

    /// Takes the next event that is due at `now`, with its time.
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, T)> {
        if self.next_deadline()? > now {
            return None;
        }
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Forgets the events for which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.heap.retain(|Reverse(entry)| keep(&entry.event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_decides_then_the_order_of_asking() {
        let mut queue = EventQueue::default();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b'), (u64::MAX, 'x')] {
            queue.push(at, event);
        }
        assert_eq!(queue.next_deadline(), Some(3));
        assert_eq!(queue.pop_due(2), None);
        let mut seen = Vec::new();
        while let Some(event) = queue.pop_due(5) {
            seen.push(event);
        }
        assert_eq!(seen, [(3, 'a'), (4, 'b'), (5, 'c'), (5, 'd')]);
        assert_eq!(queue.next_deadline(), None);
    }

    #[test]
    fn events_can_be_forgotten() {
        let mut queue = EventQueue::default();
        (0..6).for_each(|n| queue.push(6 - n, n));
        queue.retain(|n| n % 2 == 0);
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop_due(9))
            .map(|(_, n)| n)
            .collect();
        assert_eq!(order, [4, 2, 0]);
    }
}
