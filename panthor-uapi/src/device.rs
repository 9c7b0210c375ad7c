//! An open panthor device: version, features, queries.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::{FromBytes, IntoBytes};

use crate::call;
use crate::error::{Error, Object, Version};
use crate::fd::OwnedFd;
use crate::mapping::Mapping;
use crate::sys::drm::*;
use crate::sys::panthor::*;
use crate::transport::{Errno, Fd, Prot, SharedTransport};

/// The name that the driver reports.
pub const DRIVER_NAME: &str = "panthor";
/// The major version that this library speaks.
pub const MAJOR: u32 = 1;
/// The page size of the GPU's MMU where the driver does not tell (before 1.9): `panthor_mmu.c`, `pgsize_bitmap` is
/// `SZ_4K | SZ_2M` on every kernel.
pub const GPU_PAGE_SIZE: u64 = 4096;

/// What came with a minor (`panthor_drv.c`, the list above `panthor_drm_driver`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// DEV_QUERY of timestamps.
    TimestampInfo,
    /// DEV_QUERY of allowed group priorities.
    GroupPrioritiesInfo,
    /// Realtime group priority.
    RealtimePriority,
    /// The INNOCENT flag of a group's state.
    InnocentState,
    /// BO_SET_LABEL.
    BoLabel,
    /// SET_USER_MMIO_OFFSET.
    UserMmioOffset,
    /// The global timestamp and cycle counters run while a group asks for them (GLB_COUNTER_EN).
    CounterEnable,
    /// BO flag WB_MMAP.
    WbMmap,
    /// BO_SYNC.
    BoSync,
    /// BO_QUERY_INFO.
    BoQueryInfo,
    /// `selected_coherency` in the GPU information.
    SelectedCoherency,
    /// Flags of the timestamp query.
    TimestampFlags,
    /// DEV_QUERY of the MMU.
    MmuInfo,
    /// VM_BIND flag MAP_SPARSE.
    SparseMap,
}

impl Feature {
    /// Every feature, oldest first.
    pub const ALL: [Feature; 14] = [
        Feature::TimestampInfo,
        Feature::GroupPrioritiesInfo,
        Feature::RealtimePriority,
        Feature::InnocentState,
        Feature::BoLabel,
        Feature::UserMmioOffset,
        Feature::CounterEnable,
        Feature::WbMmap,
        Feature::BoSync,
        Feature::BoQueryInfo,
        Feature::SelectedCoherency,
        Feature::TimestampFlags,
        Feature::MmuInfo,
        Feature::SparseMap,
    ];

    /// The first version that has it.
    pub const fn needs(self) -> Version {
        let minor = match self {
            Feature::TimestampInfo => 1,
            Feature::GroupPrioritiesInfo | Feature::RealtimePriority => 2,
            Feature::InnocentState => 3,
            Feature::BoLabel => 4,
            Feature::UserMmioOffset => 5,
            Feature::CounterEnable => 6,
            Feature::WbMmap
            | Feature::BoSync
            | Feature::BoQueryInfo
            | Feature::SelectedCoherency => 7,
            Feature::TimestampFlags => 8,
            Feature::MmuInfo | Feature::SparseMap => 9,
        };
        Version {
            major: MAJOR,
            minor,
        }
    }

    /// Its name in the kernel's words.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::TimestampInfo => "DEV_QUERY_TIMESTAMP_INFO",
            Feature::GroupPrioritiesInfo => "DEV_QUERY_GROUP_PRIORITIES_INFO",
            Feature::RealtimePriority => "GROUP_PRIORITY_REALTIME",
            Feature::InnocentState => "GROUP_STATE_INNOCENT",
            Feature::BoLabel => "BO_SET_LABEL",
            Feature::UserMmioOffset => "SET_USER_MMIO_OFFSET",
            Feature::CounterEnable => "GLB_COUNTER_EN",
            Feature::WbMmap => "BO_WB_MMAP",
            Feature::BoSync => "BO_SYNC",
            Feature::BoQueryInfo => "BO_QUERY_INFO",
            Feature::SelectedCoherency => "gpu_info.selected_coherency",
            Feature::TimestampFlags => "timestamp_info.flags",
            Feature::MmuInfo => "DEV_QUERY_MMU_INFO",
            Feature::SparseMap => "VM_BIND_OP_MAP_SPARSE",
        }
    }
}

/// How GPU and CPU caches agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coherency {
    /// The GPU snoops the CPU's caches.
    AceLite,
    /// Full coherency.
    Ace,
    /// None: cached mappings need BO_SYNC.
    None,
    /// A value that this library does not know.
    Other(u32),
}

/// What the DRM core says about a node's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverVersion {
    /// The driver's name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Its patch level.
    pub patchlevel: u32,
}

/// The state that all handles of one open device share.
pub(crate) struct Inner {
    pub(crate) transport: SharedTransport,
    file: OwnedFd,
    path: PathBuf,
    driver: DriverVersion,
    /// How many [`crate::Bo`]s hold each GEM handle: an import can return a handle that is already held, and the kernel
    /// does not count (`drm.h`, DRM_IOCTL_GEM_CLOSE).
    pub(crate) gem_handles: Mutex<HashMap<u32, u32>>,
}

impl Inner {
    /// Issues `request` on the device.
    ///
    /// # Safety
    /// Every user pointer inside `arg` must be valid for what `request` reads and writes.
    pub(crate) unsafe fn ioctl<T: FromBytes + IntoBytes + Copy>(
        &self,
        request: u32,
        arg: &mut T,
    ) -> Result<i32, Errno> {
        // SAFETY: as the caller vouches.
        unsafe { call::ioctl(&*self.transport, self.file.fd(), request, arg) }
    }

    /// As [`Inner::ioctl`], with the error said about `object`.
    ///
    /// # Safety
    /// As for [`Inner::ioctl`].
    pub(crate) unsafe fn call<T: FromBytes + IntoBytes + Copy>(
        &self,
        request: u32,
        arg: &mut T,
        object: impl FnOnce() -> Object,
    ) -> Result<(), Error> {
        // SAFETY: as the caller vouches.
        match unsafe { self.ioctl(request, arg) } {
            Ok(_) => Ok(()),
            Err(errno) => Err(call::failed(request, object())(errno)),
        }
    }

    pub(crate) fn fd(&self) -> Fd {
        self.file.fd()
    }

    pub(crate) fn object(&self) -> Object {
        Object::Device(self.path.clone())
    }

    pub(crate) fn require(&self, feature: Feature) -> Result<(), Error> {
        let (needs, has) = (feature.needs(), self.driver.version);
        if has < needs {
            Err(Error::Unsupported {
                feature: feature.name(),
                needs,
                has,
            })
        } else {
            Ok(())
        }
    }

    /// The table of GEM handles, whether or not a thread panicked while it held it.
    pub(crate) fn gem(&self) -> std::sync::MutexGuard<'_, HashMap<u32, u32>> {
        self.gem_handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open panthor device. Cheap to clone; the node is closed when the last clone and the last handle on it are gone.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Inner>);

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Device({}, {}, {})",
            self.0.path.display(),
            self.0.transport.kind(),
            self.0.driver.version
        )
    }
}

/// Reads the driver's name and version of any DRM node.
pub(crate) fn driver_version(
    transport: &SharedTransport,
    file: &OwnedFd,
    path: &Path,
) -> Result<DriverVersion, Error> {
    // Driver names are short; a longer one is cut, which cannot make it "panthor".
    let mut name = [0u8; 64];
    let mut args = drm_version {
        name_len: name.len(),
        name: name.as_mut_ptr().expose_provenance(),
        ..Default::default()
    };
    // SAFETY: `name` points to `name_len` bytes; the other buffers have length 0.
    unsafe { call::ioctl(&**transport, file.fd(), DRM_IOCTL_VERSION, &mut args) }.map_err(
        call::failed(DRM_IOCTL_VERSION, Object::Device(path.to_owned())),
    )?;
    let len = args.name_len.min(name.len());
    Ok(DriverVersion {
        name: String::from_utf8_lossy(&name[..len]).into_owned(),
        // The kernel's versions are small and never negative.
        version: Version {
            major: args.version_major as u32,
            minor: args.version_minor as u32,
        },
        patchlevel: args.version_patchlevel as u32,
    })
}

/// Opens a node.
pub(crate) fn open(transport: &SharedTransport, path: &Path) -> Result<OwnedFd, Error> {
    let mut restarts = call::Restarts::default();
    loop {
        match transport.open(path) {
            // SAFETY: just given by this transport, to us.
            Ok(fd) => return Ok(unsafe { OwnedFd::from_fd(transport.clone(), fd) }),
            Err(errno) if restarts.again(&**transport, errno) => {}
            Err(errno) => {
                return Err(Error::Call {
                    call: "open",
                    object: Object::Device(path.to_owned()),
                    errno,
                });
            }
        }
    }
}

impl Device {
    /// Opens the node at `path` and makes sure that its driver is panthor, major version 1.
    ///
    /// # Errors
    /// [`Error::Call`] (`open`: EACCES, ENOENT; VERSION: ENOTTY), [`Error::NotPanthor`], [`Error::UnknownMajor`].
    pub fn open(transport: SharedTransport, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = open(&transport, path)?;
        let driver = driver_version(&transport, &file, path)?;
        if driver.name != DRIVER_NAME {
            return Err(Error::NotPanthor {
                path: path.to_owned(),
                driver: driver.name,
            });
        }
        if driver.version.major != MAJOR {
            return Err(Error::UnknownMajor {
                path: path.to_owned(),
                has: driver.version,
            });
        }
        log::debug!(
            "{}: panthor {} ({})",
            path.display(),
            driver.version,
            transport.kind()
        );
        let inner = Inner {
            transport,
            file,
            path: path.to_owned(),
            driver,
            gem_handles: Mutex::new(HashMap::new()),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// The transport that it was opened on.
    pub fn transport(&self) -> &SharedTransport {
        &self.0.transport
    }

    /// The path that it was opened at.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The driver's name and version.
    pub fn driver(&self) -> &DriverVersion {
        &self.0.driver
    }

    /// The driver's version.
    pub fn version(&self) -> Version {
        self.0.driver.version
    }

    /// Whether the driver has `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.version() >= feature.needs()
    }

    /// Fails unless the driver has `feature`.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn require(&self, feature: Feature) -> Result<(), Error> {
        self.0.require(feature)
    }

    /// The CPU's page size in bytes: BO sizes are multiples of it.
    pub fn page_size(&self) -> usize {
        self.0.transport.page_size()
    }

    /// Reads a DRM capability (`DRM_CAP_*`).
    ///
    /// # Errors
    /// [`Error::Call`], EINVAL for an unknown one.
    pub fn capability(&self, capability: u64) -> Result<u64, Error> {
        let mut args = drm_get_cap {
            capability,
            value: 0,
        };
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_GET_CAP, &mut args, || self.0.object())?
        };
        Ok(args.value)
    }

    /// How many bytes the driver's struct of a DEV_QUERY type has.
    ///
    /// # Errors
    /// [`Error::Call`], EINVAL for a type that the driver does not know.
    pub fn query_size(&self, r#type: u32) -> Result<usize, Error> {
        let mut args = drm_panthor_dev_query {
            r#type,
            size: 0,
            pointer: 0,
        };
        // SAFETY: the null pointer asks for the size only.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_DEV_QUERY, &mut args, || self.0.object())?
        };
        Ok(args.size as usize)
    }

    /// Fills `info` with as much of a DEV_QUERY type as both sides know; what the driver does not know is zero.
    fn query<T: FromBytes + IntoBytes>(&self, r#type: u32, mut info: T) -> Result<T, Error> {
        let size = self.query_size(r#type)?.min(size_of::<T>());
        let mut args = drm_panthor_dev_query {
            r#type,
            size: size as u32, // at most size_of::<T>()
            pointer: std::ptr::from_mut(&mut info).expose_provenance() as u64,
        };
        // SAFETY: `pointer` leads to a struct of at least `size` bytes, of which any content is valid.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_DEV_QUERY, &mut args, || self.0.object())?
        };
        info.as_mut_bytes()[size..].fill(0);
        Ok(info)
    }

    /// GPU information. Fields that the driver is too old for are zero; see [`Device::coherency`].
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn gpu_info(&self) -> Result<drm_panthor_gpu_info, Error> {
        self.query(DRM_PANTHOR_DEV_QUERY_GPU_INFO, Default::default())
    }

    /// Command-stream interface information.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn csif_info(&self) -> Result<drm_panthor_csif_info, Error> {
        self.query(DRM_PANTHOR_DEV_QUERY_CSIF_INFO, Default::default())
    }

    /// Timestamps; `flags` empty asks for GPU time, offset and frequency.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before 1.1, with flags before 1.8; [`Error::Call`] (EINVAL for flags that exclude each
    /// other).
    pub fn timestamp_info(
        &self,
        flags: TimestampFlags,
    ) -> Result<drm_panthor_timestamp_info, Error> {
        self.require(Feature::TimestampInfo)?;
        if !flags.is_empty() {
            self.require(Feature::TimestampFlags)?;
        }
        let info = drm_panthor_timestamp_info {
            flags: flags.bits(),
            ..Default::default()
        };
        self.query(DRM_PANTHOR_DEV_QUERY_TIMESTAMP_INFO, info)
    }

    /// Which group priorities this process may use.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before 1.2; [`Error::Call`].
    pub fn group_priorities_info(&self) -> Result<drm_panthor_group_priorities_info, Error> {
        self.require(Feature::GroupPrioritiesInfo)?;
        self.query(
            DRM_PANTHOR_DEV_QUERY_GROUP_PRIORITIES_INFO,
            Default::default(),
        )
    }

    /// The page sizes of the GPU's MMU.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before 1.9; [`Error::Call`].
    pub fn mmu_info(&self) -> Result<drm_panthor_mmu_info, Error> {
        self.require(Feature::MmuInfo)?;
        self.query(DRM_PANTHOR_DEV_QUERY_MMU_INFO, Default::default())
    }

    /// The smallest page of the GPU's MMU in bytes: VAs, sizes and BO offsets of binds are multiples of it.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn gpu_page_size(&self) -> Result<u64, Error> {
        if !self.has(Feature::MmuInfo) {
            return Ok(GPU_PAGE_SIZE);
        }
        let bitmap = self.mmu_info()?.page_size_bitmap;
        Ok(1u64
            .checked_shl(bitmap.trailing_zeros())
            .unwrap_or(GPU_PAGE_SIZE))
    }

    /// How caches agree; `None` where the driver does not tell (before 1.7), which is to be taken as no coherency.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn coherency(&self) -> Result<Option<Coherency>, Error> {
        if !self.has(Feature::SelectedCoherency) {
            return Ok(None);
        }
        Ok(Some(match self.gpu_info()?.selected_coherency {
            DRM_PANTHOR_GPU_COHERENCY_ACE_LITE => Coherency::AceLite,
            DRM_PANTHOR_GPU_COHERENCY_ACE => Coherency::Ace,
            DRM_PANTHOR_GPU_COHERENCY_NONE => Coherency::None,
            other => Coherency::Other(other),
        }))
    }

    /// Chooses where user MMIO pages are mapped, for emulators of another word size. [`Device::map_flush_id`] expects
    /// the default.
    ///
    /// # Errors
    /// [`Error::Unsupported`] before 1.5; [`Error::Call`], EINVAL for anything but the two known offsets.
    pub fn set_user_mmio_offset(&self, offset: u64) -> Result<(), Error> {
        self.require(Feature::UserMmioOffset)?;
        let mut args = drm_panthor_set_user_mmio_offset { offset };
        // SAFETY: no pointers inside.
        unsafe {
            self.0
                .call(DRM_IOCTL_PANTHOR_SET_USER_MMIO_OFFSET, &mut args, || {
                    self.0.object()
                })
        }
    }

    /// Maps the page with the LATEST_FLUSH_ID register: exactly one CPU page, read-only.
    ///
    /// # Errors
    /// [`Error::Call`] with `mmap`.
    pub fn map_flush_id(&self) -> Result<FlushId, Error> {
        let offset = DRM_PANTHOR_USER_FLUSH_ID_MMIO_OFFSET;
        let object = self.0.object();
        let len = self.page_size();
        Mapping::new(
            &self.0.transport,
            self.0.fd(),
            offset,
            len,
            Prot::READ,
            object,
        )
        .map(FlushId)
    }
}

/// The page with the LATEST_FLUSH_ID register.
#[derive(Debug)]
pub struct FlushId(Mapping);

impl FlushId {
    /// The latest flush's number, for `latest_flush` of submissions whose memory was written before this call.
    pub fn latest(&self) -> u32 {
        self.0.read_u32(0)
    }
}
