//! What init inside shall do: a file in the boot's private directory, which it reads through the host's file system. (Over
//! the channel it would come at a time that the host chooses, and no two runs would be the same.)

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// First bytes of the file; the number counts its versions.
const MAGIC: &[u8; 8] = b"RIGORD01";

/// What the command's standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`: nothing that the host times reaches the machine.
    Null,
    /// Comes over the channel.
    Channel,
}

/// Terminals that the command gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminals {
    /// Standard output is one.
    pub out: bool,
    /// Standard error is one.
    pub err: bool,
    /// All three streams are one and the same, which controls the command's session: an interactive shell.
    pub controlling: bool,
    /// Its size.
    pub rows: u16,
    /// Its size.
    pub columns: u16,
}

/// As whom the command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Whether root's capabilities stay.
    pub capable: bool,
}

/// What init shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The command and its arguments.
    pub argv: Vec<OsString>,
    /// Its environment, all of it.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its umask.
    pub umask: u32,
    /// As whom it runs.
    pub identity: Identity,
    /// Its standard input.
    pub stdin: Stdin,
    /// Its terminals.
    pub terminals: Terminals,
    /// Whether the driver is bound and its render node waited for; without, the command starts at once.
    pub bind: bool,
}

impl Order {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut number = |n: u32| out.extend(n.to_le_bytes());
        let t = &self.terminals;
        let flags = u32::from(self.stdin == Stdin::Channel)
            | u32::from(t.out) << 1
            | u32::from(t.err) << 2
            | u32::from(t.controlling) << 3
            | u32::from(self.identity.capable) << 4
            | u32::from(self.bind) << 5;
        number(flags);
        number(u32::from(t.rows) << 16 | u32::from(t.columns));
        number(self.umask);
        number(self.identity.uid);
        number(self.identity.gid);
        number(self.identity.groups.len() as u32);
        self.identity.groups.iter().for_each(|g| number(*g));
        number(self.argv.len() as u32);
        number(self.env.len() as u32);
        let mut text = |s: &std::ffi::OsStr| {
            out.extend((s.len() as u32).to_le_bytes());
            out.extend(s.as_bytes());
        };
        text(self.cwd.as_os_str());
        self.argv.iter().for_each(|a| text(a));
        for (name, value) in &self.env {
            text(name);
            text(value);
        }
        out
    }

    /// From bytes; `None` where they are no order of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut take = |n: usize| {
            let (head, tail) = rest.split_at_checked(n)?;
            rest = tail;
            Some(head)
        };
        let mut number = || take(4)?.try_into().ok().map(u32::from_le_bytes);
        let flags = number()?;
        let size = number()?;
        let umask = number()?;
        let (uid, gid) = (number()?, number()?);
        let count = number()?;
        let groups = (0..count).map(|_| number()).collect::<Option<_>>()?;
        let (argc, envc) = (number()?, number()?);
        let mut text = || {
            let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
            Some(OsString::from_vec(take(length as usize)?.to_vec()))
        };
        let cwd = PathBuf::from(text()?);
        let argv = (0..argc).map(|_| text()).collect::<Option<_>>()?;
        let env = (0..envc)
            .map(|_| Some((text()?, text()?)))
            .collect::<Option<_>>()?;
        if !rest.is_empty() || flags >= 1 << 6 {
            return None;
        }
        let flag = |bit: u32| flags >> bit & 1 == 1;
        Some(Self {
            argv,
            env,
            cwd,
            umask,
            identity: Identity {
                uid,
                gid,
                groups,
                capable: flag(4),
            },
            stdin: if flag(0) { Stdin::Channel } else { Stdin::Null },
            terminals: Terminals {
                out: flag(1),
                err: flag(2),
                controlling: flag(3),
                rows: (size >> 16) as u16,
                columns: (size & 0xffff) as u16,
            },
            bind: flag(5),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            argv: vec!["cat".into(), OsString::from_vec(vec![b'-', 0xff])],
            env: vec![("A".into(), "b=c\nd".into())],
            cwd: "/tmp/with blank".into(),
            umask: 0o22,
            identity: Identity {
                uid: 1000,
                gid: 100,
                groups: vec![4, 27],
                capable: false,
            },
            stdin: Stdin::Channel,
            terminals: Terminals {
                out: false,
                err: true,
                controlling: false,
                rows: 24,
                columns: 80,
            },
            bind: true,
        }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        assert_eq!(Order::decode(&order().encode()), Some(order()));
    }

    #[test]
    fn a_cut_or_lengthened_order_is_none() {
        let bytes = order().encode();
        for length in 0..bytes.len() {
            assert_eq!(Order::decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Order::decode(&[&bytes[..], &[0]].concat()), None);
    }
}
