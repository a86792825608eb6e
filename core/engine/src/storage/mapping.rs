//! Memory that is mapped: files, and regions shared with other processes.

use crate::{Result, bail, check};

/// How other processes find a shared region.
pub enum SharedHandle<'a> {
    /// By a file descriptor.
    Descriptor(i32),
    /// By a name.
    Name(&'a str),
}

/// A mapped region; unmapped when dropped.
pub struct Mapping {
    region: region::Region,
    /// Bytes in front of the data that hold the count of a named region's users.
    header: usize,
    len: usize,
    /// The path of a file that is mapped shared.
    path: Option<String>,
}

/// Bytes in front of the data of a named region.
#[cfg(all(unix, not(target_family = "wasm")))]
const HEADER: usize = 64;

impl Mapping {
    /// The first byte of the data; null when there is none.
    pub fn data(&self) -> *mut u8 {
        if self.len == 0 { std::ptr::null_mut() } else { self.region.data().wrapping_add(self.header) }
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The path of a file that is mapped shared: what is written here is written there.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Maps the first `nbytes` bytes of a file. Shared: writes reach the file, which is made and grown as needed.
    /// Otherwise: writes stay private.
    ///
    /// # Errors
    /// RuntimeError when the file cannot be opened, is too short, or cannot be mapped.
    pub fn file(path: &str, shared: bool, nbytes: i64) -> Result<Mapping> {
        let path_shown = shared.then(|| path.to_owned());
        if nbytes == 0 {
            return Ok(Mapping { region: region::Region::empty(), header: 0, len: 0, path: path_shown });
        }
        let mode = if shared { "read-write" } else { "read-only" };
        let mut options = std::fs::OpenOptions::new();
        options.read(true);
        if shared {
            options.write(true).create(true).truncate(false);
        }
        let file = match options.open(path) {
            Ok(file) => file,
            Err(e) => bail!(Runtime, "unable to open file <{path}> in {mode} mode: {}", reason(&e)),
        };
        let Ok(len) = usize::try_from(nbytes) else {
            bail!(Runtime, "unable to mmap {nbytes} bytes from file <{path}>: Cannot allocate memory (12)")
        };
        let present = match file.metadata() {
            Ok(m) => m.len(),
            Err(e) => bail!(Runtime, "unable to stat the file <{path}>: {}", reason(&e)),
        };
        if present < len as u64 {
            check!(
                shared,
                "file <{path}> size <{present}> is smaller than the required mapping size <{nbytes}>"
            );
            if let Err(e) = file.set_len(len as u64) {
                bail!(Runtime, "unable to resize file <{path}> to the right size: {}", reason(&e));
            }
        }
        match region::Region::map(&file, shared, len) {
            Ok(region) => Ok(Mapping { region, header: 0, len, path: path_shown }),
            Err(e) => bail!(Runtime, "unable to mmap {nbytes} bytes from file <{path}>: {}", reason(&e)),
        }
    }
}

/// The system's words for an error, with its number as upstream shows it.
fn reason(e: &std::io::Error) -> String {
    e.to_string().replace("(os error ", "(")
}

#[cfg(target_family = "wasm")]
mod region {
    //! Without virtual memory a private mapping is a copy.
    use std::io::{Error, ErrorKind, Read, Result};

    pub struct Region(Box<[u8]>);

    impl Region {
        pub fn empty() -> Region {
            Region(Box::default())
        }
        pub fn data(&self) -> *mut u8 {
            self.0.as_ptr().cast_mut()
        }
        pub fn map(mut file: &std::fs::File, shared: bool, len: usize) -> Result<Region> {
            if shared {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "files cannot be mapped shared in WebAssembly",
                ));
            }
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(len).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
            bytes.resize(len, 0);
            file.read_exact(&mut bytes)?;
            Ok(Region(bytes.into_boxed_slice()))
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod region {
    use memmap2::{MmapMut, MmapOptions};
    use std::io::Result;

    pub struct Region {
        map: Option<MmapMut>,
        #[cfg(unix)]
        pub(super) shared: Option<super::shared::Owner>,
    }

    impl Region {
        pub fn empty() -> Region {
            Region::new(None)
        }
        fn new(map: Option<MmapMut>) -> Region {
            Region {
                map,
                #[cfg(unix)]
                shared: None,
            }
        }
        pub fn data(&self) -> *mut u8 {
            self.map.as_ref().map_or(std::ptr::null_mut(), |m| m.as_ptr().cast_mut())
        }
        pub fn map(file: &std::fs::File, shared: bool, len: usize) -> Result<Region> {
            let mut options = MmapOptions::new();
            options.len(len);
            // SAFETY: like every shared memory, another process may change it; it is only handed out as raw bytes.
            let map = unsafe { if shared { options.map_mut(file) } else { options.map_copy(file) } }?;
            Ok(Region::new(Some(map)))
        }
    }

    #[cfg(unix)]
    impl Drop for Region {
        fn drop(&mut self) {
            if let Some(owner) = self.shared.take() {
                owner.release(self.data());
            }
        }
    }
}

#[cfg(all(unix, not(target_family = "wasm")))]
mod shared {
    //! POSIX shared memory.
    use super::region::Region;
    use super::{HEADER, Mapping, SharedHandle, reason};
    use crate::{Result, bail};
    use std::ffi::CString;
    use std::fs::File;
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

    /// What a shared region's user holds besides the mapping.
    pub enum Owner {
        /// The open descriptor; the name is gone already.
        Descriptor(File),
        /// The name; whoever lets go last removes it.
        Name(String),
    }

    impl Owner {
        pub fn release(self, data: *mut u8) {
            if let Owner::Name(name) = self
                && !data.is_null()
                // SAFETY: the header of a named region begins with the count, and is still mapped.
                && unsafe { count(data) }.fetch_sub(1, Ordering::AcqRel) == 1
            {
                unlink(&name);
            }
        }
    }

    /// # Safety
    /// `data` is the start of a named region that is mapped while the result is used.
    unsafe fn count<'a>(data: *mut u8) -> &'a AtomicI32 {
        unsafe { AtomicI32::from_ptr(data.cast()) }
    }

    fn unlink(name: &str) {
        if let Ok(name) = CString::new(name) {
            // SAFETY: a C string.
            unsafe { libc::shm_unlink(name.as_ptr()) };
        }
    }

    fn new_name() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let time = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.subsec_nanos());
        format!("/torch_{}_{time}_{n}", std::process::id())
    }

    fn open(name: &str, create: bool) -> Result<File> {
        let c_name = match CString::new(name) {
            Ok(n) => n,
            Err(_) => bail!(Value, "embedded null character"),
        };
        let flags = libc::O_RDWR | if create { libc::O_CREAT | libc::O_EXCL } else { 0 };
        // SAFETY: a C string; the descriptor is owned by the file from here on.
        let fd = unsafe { libc::shm_open(c_name.as_ptr(), flags, 0o600) };
        if fd < 0 {
            let e = std::io::Error::last_os_error();
            bail!(Runtime, "unable to open shared memory object <{name}> in read-write mode: {}", reason(&e));
        }
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    fn map(file: &File, len: usize, name: &str) -> Result<Region> {
        match Region::map(file, true, len) {
            Ok(r) => Ok(r),
            Err(e) => bail!(Runtime, "unable to mmap {len} bytes from file <{name}>: {}", reason(&e)),
        }
    }

    fn grow(file: &File, len: usize, name: &str) -> Result<()> {
        if let Err(e) = file.set_len(len as u64) {
            unlink(name);
            bail!(Runtime, "unable to resize file <{name}> to the right size: {}", reason(&e));
        }
        Ok(())
    }

    impl Mapping {
        /// A new region, found by a file descriptor.
        ///
        /// # Errors
        /// RuntimeError when the system has no such memory left.
        pub fn shared_by_descriptor(len: usize) -> Result<Mapping> {
            if len == 0 {
                return Ok(Mapping { region: Region::empty(), header: 0, len, path: None });
            }
            let name = new_name();
            let file = open(&name, true)?;
            grow(&file, len, &name)?;
            let mapped = map(&file, len, &name);
            // The descriptor keeps the memory; without a name nothing is left behind when this process dies.
            unlink(&name);
            let mut region = mapped?;
            region.shared = Some(Owner::Descriptor(file));
            Ok(Mapping { region, header: 0, len, path: None })
        }

        /// The region of a descriptor, which stays the caller's.
        ///
        /// # Errors
        /// RuntimeError for a descriptor that is not open, or not of a region that large.
        pub fn open_descriptor(fd: i32, len: usize) -> Result<Mapping> {
            if len == 0 {
                return Ok(Mapping { region: Region::empty(), header: 0, len, path: None });
            }
            let duplicate = if fd < 0 {
                None
            } else {
                // SAFETY: only used for the call, which fails when the descriptor is not open.
                unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok()
            };
            let Some(file) = duplicate.map(File::from) else {
                bail!(Runtime, "could not duplicate a shared memory file descriptor")
            };
            if file.metadata().is_ok_and(|m| m.len() < len as u64) {
                bail!(Runtime, "a shared memory file is smaller than the required mapping size <{len}>");
            }
            let mut region = map(&file, len, "")?;
            region.shared = Some(Owner::Descriptor(file));
            Ok(Mapping { region, header: 0, len, path: None })
        }

        /// A new region, found by its name, with a count of its users.
        ///
        /// # Errors
        /// RuntimeError when the system has no such memory left.
        pub fn shared_by_name(len: usize) -> Result<Mapping> {
            let name = new_name();
            let file = open(&name, true)?;
            grow(&file, len + HEADER, &name)?;
            Self::named(&file, name, len)
        }

        /// The region of a name.
        ///
        /// # Errors
        /// RuntimeError when there is none, or it is smaller.
        pub fn open_name(name: &str, len: usize) -> Result<Mapping> {
            let file = open(name, false)?;
            let present = file.metadata().map_or(0, |m| m.len());
            if present < (len + HEADER) as u64 {
                bail!(
                    Runtime,
                    "file <{name}> size <{present}> is smaller than the required mapping size <{}>",
                    len + HEADER
                );
            }
            Self::named(&file, name.to_owned(), len)
        }

        fn named(file: &File, name: String, len: usize) -> Result<Mapping> {
            let mut region = map(file, len + HEADER, &name)?;
            // SAFETY: mapped, with a header; a new region's count is zero.
            unsafe { count(region.data()) }.fetch_add(1, Ordering::AcqRel);
            region.shared = Some(Owner::Name(name));
            Ok(Mapping { region, header: HEADER, len, path: None })
        }

        /// How other processes find the region; `None` for files and empty regions.
        pub fn handle(&self) -> Option<SharedHandle<'_>> {
            match self.region.shared.as_ref()? {
                Owner::Descriptor(f) => Some(SharedHandle::Descriptor(f.as_raw_fd())),
                Owner::Name(n) => Some(SharedHandle::Name(n)),
            }
        }

        /// Changes the count of a named region's users: a handle on its way to another process counts as one.
        pub fn count_user(&self, by: i32) {
            if matches!(self.region.shared, Some(Owner::Name(_))) {
                // SAFETY: mapped, with a header.
                unsafe { count(self.region.data()) }.fetch_add(by, Ordering::AcqRel);
            }
        }
    }
}
