//! Becoming the user as whom the command runs.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::options::User;
use super::order::Identity;

/// Who that is.
pub(super) fn of(user: User) -> Identity {
    let own_groups = || {
        let groups = rustix::process::getgroups().unwrap_or_default();
        groups.into_iter().map(Gid::as_raw).collect()
    };
    match user {
        User::Caller => Identity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: own_groups(),
            capable: false,
        },
        User::Root => Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            capable: true,
        },
        User::Number(number) => Identity {
            uid: number,
            gid: number,
            groups: Vec::new(),
            capable: false,
        },
    }
}

/// Makes the calling process, which has one thread and every capability, that user. Where it may not stay capable, no
/// program that it executes becomes so either, not even as user 0.
///
/// # Errors
/// What the system calls say.
pub(super) fn assume(identity: &Identity) -> io::Result<()> {
    let groups: Vec<Gid> = identity.groups.iter().map(|g| Gid::from_raw(*g)).collect();
    rustix::thread::set_thread_groups(&groups)?;
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    if !identity.capable {
        // Without a bounding set, `execve` of user 0 gives nothing (capabilities(7)).
        for capability in CapabilitySet::all().iter() {
            if let Ok(true) = rustix::thread::capability_is_in_bounding_set(capability) {
                rustix::thread::remove_capability_from_bounding_set(capability)?;
            }
        }
    }
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    if !identity.capable {
        rustix::thread::set_capabilities(
            None,
            CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            },
        )?;
        rustix::thread::set_no_new_privs(true)?;
    }
    Ok(())
}
