//! Fences (`drivers/dma-buf/dma-fence*.c`): plain ones, chains (timeline points) and arrays (merged fences).
//!
//! Two properties of the kernel's are kept on purpose, since a client can be caught by them. A chain node never carries
//! the error of the fence in it; only unwrapping shows that. And walking a chain drops nodes whose fence has signalled,
//! so that an early point, failed or not, is found as "signalled well" once later ones have signalled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use panthor_uapi::Errno;

static NEXT_CONTEXT: AtomicU64 = AtomicU64::new(1);

/// A new fence context: the number of a timeline (`dma_fence_context_alloc`).
pub fn new_context() -> u64 {
    NEXT_CONTEXT.fetch_add(1, Ordering::Relaxed)
}

/// A reference to a fence.
pub type FenceRef = Arc<Fence>;

/// Something that signals once, well or with an errno.
#[derive(Debug)]
pub struct Fence {
    /// The timeline that the fence is on.
    pub context: u64,
    /// Its place on it.
    pub seqno: u64,
    driver: &'static str,
    timeline: String,
    kind: Kind,
    state: Mutex<State>,
}

#[derive(Debug)]
enum Kind {
    Plain,
    Chain {
        fence: FenceRef,
        prev: Mutex<Option<FenceRef>>,
        prev_seqno: u64,
    },
    Array(Vec<FenceRef>),
}

#[derive(Debug, Default)]
struct State {
    signalled: bool,
    error: Option<Errno>,
    timestamp: u64,
    /// Arrays only: someone waits, so that the members' errors are passed on.
    signalling_enabled: bool,
}

impl Fence {
    fn with_kind(
        context: u64,
        seqno: u64,
        driver: &'static str,
        timeline: String,
        kind: Kind,
    ) -> FenceRef {
        Arc::new(Self {
            context,
            seqno,
            driver,
            timeline,
            kind,
            state: Mutex::default(),
        })
    }

    /// A fence of the driver's on timeline `context`.
    pub fn new(context: u64, seqno: u64, timeline: String) -> FenceRef {
        Self::with_kind(context, seqno, "drm_sched", timeline, Kind::Plain)
    }

    /// A fence that has signalled well at `now` (`dma_fence_get_stub`).
    pub fn stub(now: u64) -> FenceRef {
        let fence = Self::with_kind(new_context(), 1, "stub", "stub".into(), Kind::Plain);
        fence.signal(now);
        fence
    }

    /// A node of a timeline behind `prev` (`dma_fence_chain_init`).
    pub fn chain(prev: Option<FenceRef>, fence: FenceRef, seqno: u64) -> FenceRef {
        let (context, seqno, prev_seqno) = match prev.as_ref().filter(|prev| prev.is_chain()) {
            Some(prev) if seqno > prev.seqno => (prev.context, seqno, prev.seqno),
            Some(prev) => (new_context(), seqno.max(prev.seqno), 0),
            None => (new_context(), seqno, 0),
        };
        let kind = Kind::Chain {
            fence,
            prev: Mutex::new(prev),
            prev_seqno,
        };
        Self::with_kind(context, seqno, "dma_fence_chain", "unbound".into(), kind)
    }

    /// All fences of `heads`, without those that have signalled (`dma_fence_unwrap_merge`).
    pub fn merge(heads: &[FenceRef], now: u64) -> FenceRef {
        let mut pending: Vec<FenceRef> = Vec::new();
        let mut timestamp = 0;
        for fence in heads.iter().flat_map(|head| head.unwrap(now)) {
            if fence.is_signalled(now) {
                timestamp = timestamp.max(fence.timestamp());
            } else {
                pending.push(fence);
            }
        }
        if pending.len() > 1 {
            // Of each context the latest only.
            pending.sort_by_key(|fence| (fence.context, std::cmp::Reverse(fence.seqno)));
            pending.dedup_by_key(|fence| fence.context);
        }
        match pending.len() {
            0 => Self::stub(timestamp),
            1 => pending.swap_remove(0),
            _ => {
                let (driver, timeline) = ("dma_fence_array", "unbound".to_owned());
                Self::with_kind(new_context(), 1, driver, timeline, Kind::Array(pending))
            }
        }
    }

    /// Names of the driver and of the timeline, as sync files report them. `detached`: a fence that has been seen to
    /// signal has lost them, as in 7.x (`dma_fence_driver_name`, `dma_fence_timeline_name`).
    pub fn names(&self, detached: bool) -> (&str, &str) {
        if detached && self.lock().signalled {
            ("detached-driver", "signaled-timeline")
        } else {
            (self.driver, &self.timeline)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is a timeline's node.
    pub fn is_chain(&self) -> bool {
        matches!(self.kind, Kind::Chain { .. })
    }

    /// The fence in a chain's node, the fence itself otherwise (`dma_fence_chain_contained`).
    pub fn contained(self: &FenceRef) -> FenceRef {
        match &self.kind {
            Kind::Chain { fence, .. } => fence.clone(),
            _ => self.clone(),
        }
    }

    /// The point before a chain's node, 0 where there is none.
    pub fn prev_seqno(&self) -> u64 {
        match self.kind {
            Kind::Chain { prev_seqno, .. } => prev_seqno,
            _ => 0,
        }
    }

    /// Notes the errno with which the fence will signal (`dma_fence_set_error`).
    pub fn set_error(&self, error: Errno) {
        let mut state = self.lock();
        if !state.signalled {
            state.error = Some(error);
        }
    }

    /// Signals a plain fence.
    pub fn signal(&self, now: u64) {
        let mut state = self.lock();
        if !state.signalled {
            state.signalled = true;
            state.timestamp = now;
        }
    }

    /// Whether the fence has signalled (`dma_fence_is_signaled`).
    pub fn is_signalled(self: &FenceRef, now: u64) -> bool {
        if self.lock().signalled {
            return true;
        }
        let done = match &self.kind {
            Kind::Plain => false,
            Kind::Chain { .. } => {
                let mut node = Some(self.clone());
                loop {
                    match node {
                        Some(current) => {
                            if !current.contained().is_signalled(now) {
                                break false;
                            }
                            node = current.walk(now);
                        }
                        None => break true,
                    }
                }
            }
            Kind::Array(members) => members.iter().all(|member| member.is_signalled(now)),
        };
        if done {
            let error = match &self.kind {
                // An array passes an error on only where someone has asked it to call back.
                Kind::Array(members) if self.lock().signalling_enabled => members
                    .iter()
                    .filter_map(|member| member.error().map(|error| (member.timestamp(), error)))
                    .min_by_key(|(timestamp, _)| *timestamp)
                    .map(|(_, error)| error),
                _ => None,
            };
            let mut state = self.lock();
            state.signalled = true;
            state.timestamp = now;
            state.error = error;
        }
        done
    }

    /// Says that someone waits for the fence to call back (`dma_fence_enable_sw_signaling`).
    pub fn enable_signalling(&self) {
        self.lock().signalling_enabled = true;
    }

    /// The errno, noted or signalled.
    pub fn error(&self) -> Option<Errno> {
        self.lock().error
    }

    /// When it signalled, in nanoseconds.
    pub fn timestamp(&self) -> u64 {
        self.lock().timestamp
    }

    /// 0 pending, 1 signalled well, a negative errno otherwise (`dma_fence_get_status`).
    pub fn status(self: &FenceRef, now: u64) -> i32 {
        match (self.is_signalled(now), self.error()) {
            (false, _) => 0,
            (true, None) => 1,
            (true, Some(error)) => -error.raw_os_error(),
        }
    }

    /// The previous node of a chain, dropping those whose fence has signalled (`dma_fence_chain_walk`).
    fn walk(self: &FenceRef, now: u64) -> Option<FenceRef> {
        let Kind::Chain { prev: slot, .. } = &self.kind else {
            return None;
        };
        loop {
            let prev = slot
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()?;
            if !prev.contained().is_signalled(now) {
                return Some(prev);
            }
            let replacement = match &prev.kind {
                Kind::Chain { prev, .. } => {
                    prev.lock().unwrap_or_else(PoisonError::into_inner).clone()
                }
                _ => None,
            };
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = replacement;
        }
    }

    /// Collects the chain's garbage (what `drm_syncobj_add_point` does after adding a node).
    pub fn collect(self: &FenceRef, now: u64) {
        let mut node = self.walk(now);
        while let Some(current) = node {
            node = current.walk(now);
        }
    }

    /// The node that signals `point` (`dma_fence_chain_find_seqno`): `Ok(None)` where it has signalled and gone, EINVAL
    /// where the timeline has not come that far. Point 0 is the fence itself.
    pub fn find_seqno(self: &FenceRef, point: u64, now: u64) -> Result<Option<FenceRef>, Errno> {
        if point == 0 {
            return Ok(Some(self.clone()));
        }
        if !self.is_chain() || self.seqno < point {
            return Err(Errno::INVAL);
        }
        let mut node = Some(self.clone());
        while let Some(current) = node {
            if current.context != self.context || current.prev_seqno() < point {
                return Ok(Some(current));
            }
            node = current.walk(now);
        }
        Ok(None)
    }

    /// The last node of the same timeline that a walk reaches (for `DRM_IOCTL_SYNCOBJ_QUERY`).
    pub fn oldest_of_context(self: &FenceRef, now: u64) -> FenceRef {
        let mut oldest = self.clone();
        let mut node = Some(self.clone());
        while let Some(current) = node {
            if current.context != self.context {
                break;
            }
            oldest = current.clone();
            node = current.walk(now);
        }
        oldest
    }

    /// The plain fences inside (`dma_fence_unwrap_for_each`): chains and arrays taken apart.
    pub fn unwrap(self: &FenceRef, now: u64) -> Vec<FenceRef> {
        let mut fences = Vec::new();
        let mut node = Some(self.clone());
        while let Some(current) = node {
            let contained = current.contained();
            match &contained.kind {
                Kind::Array(members) => fences.extend(members.iter().cloned()),
                _ => fences.push(contained),
            }
            node = current.walk(now);
        }
        fences
    }
}

impl Drop for Fence {
    /// Takes a long chain apart without recursion.
    fn drop(&mut self) {
        let Kind::Chain { prev, .. } = &mut self.kind else {
            return;
        };
        let mut next = prev
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        while let Some(mut node) = next.take().and_then(Arc::into_inner) {
            if let Kind::Chain { prev, .. } = &mut node.kind {
                next = prev
                    .get_mut()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(context: u64, seqno: u64) -> FenceRef {
        Fence::new(context, seqno, "test".into())
    }

    #[test]
    fn a_chain_waits_for_all_before_it_and_forgets_errors() {
        let context = new_context();
        let fences: Vec<_> = (1..=3).map(|n| plain(context, n)).collect();
        let mut head: Option<FenceRef> = None;
        for (point, fence) in (1..).zip(&fences) {
            head = Some(Fence::chain(head.take(), fence.clone(), point));
        }
        let head = head.unwrap();
        assert!(matches!(head.find_seqno(4, 0), Err(Errno::INVAL)));
        let second = head.find_seqno(2, 0).unwrap().unwrap();
        assert_eq!((second.seqno, second.prev_seqno()), (2, 1));
        fences[1].signal(5);
        assert!(!second.is_signalled(6), "the point before it is pending");
        let first = head.find_seqno(1, 6).unwrap().unwrap();
        fences[0].set_error(Errno::TIMEDOUT);
        fences[0].signal(7);
        assert_eq!(first.status(8), 1, "a node does not carry the error");
        assert!(
            head.find_seqno(1, 8).unwrap().is_none(),
            "signalled and gone"
        );
        assert_eq!(
            head.oldest_of_context(8).seqno,
            3,
            "signalled nodes are gone"
        );
        fences[2].signal(9);
        assert_eq!(head.status(10), 1);
        let stale = Fence::chain(Some(head.clone()), plain(context, 4), 2);
        assert_ne!(
            stale.context, head.context,
            "a point out of order starts a new timeline"
        );
        assert_eq!(stale.seqno, 3);
    }

    #[test]
    fn unwrapping_shows_the_error() {
        let fence = plain(new_context(), 1);
        let point = Fence::chain(None, fence.clone(), 10);
        fence.set_error(Errno::CANCELED);
        fence.signal(1);
        assert_eq!(point.status(1), 1);
        let inner = point.unwrap(1);
        assert_eq!(inner.len(), 1);
        assert_eq!(inner[0].status(1), -Errno::CANCELED.raw_os_error());
    }

    #[test]
    fn merging_keeps_what_is_pending_and_the_latest_of_a_context() {
        let (a, b) = (new_context(), new_context());
        let (early, late, other) = (plain(a, 1), plain(a, 2), plain(b, 1));
        let merged = Fence::merge(&[early.clone(), late.clone(), other.clone()], 0);
        assert_eq!(merged.unwrap(0).len(), 2);
        late.set_error(Errno::INVAL);
        late.signal(1);
        assert_eq!(merged.status(1), 0);
        other.signal(2);
        assert_eq!(
            merged.status(2),
            1,
            "nobody had asked the array to call back"
        );
        let watched = Fence::merge(&[plain(a, 3), plain(b, 2)], 3);
        watched.enable_signalling();
        for fence in watched.unwrap(3) {
            fence.set_error(Errno::INVAL);
            fence.signal(4);
        }
        assert_eq!(watched.status(5), -Errno::INVAL.raw_os_error());
        assert_eq!(
            Fence::merge(&[early, late], 6).status(6),
            0,
            "the early one is pending"
        );
    }

    #[test]
    fn a_long_chain_is_dropped_without_recursion() {
        let context = new_context();
        let mut head = None;
        for point in 1..200_000 {
            head = Some(Fence::chain(head.take(), plain(context, point), point));
        }
        drop(head);
    }
}
