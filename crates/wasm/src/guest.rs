//! The memory of a module, as host functions reach it. What they copy costs fuel, byte by byte: a module cannot have
//! the host work for it without a bound.

use crate::abi::status;
use crate::data::Data;
use wasmtime::{AsContext, AsContextMut, Caller, Memory, Trap};

/// Fuel that each host function costs.
const CALL: u64 = 100;
/// Fuel for each field of a map that a host function looks at.
const FIELD: usize = 4;
/// Bytes that a module hands over at once.
const MOST: usize = 2 * 1024 * 1024;

/// Where something stands in the memory of a module, and how long it is.
pub(crate) type Place = (i32, i32);

/// Why a host function does nothing.
pub(crate) enum Stop {
    /// The module gets this status.
    Status(i32),
    /// The call ends here.
    Trap(wasmtime::Error),
}

impl From<wasmtime::Error> for Stop {
    fn from(error: wasmtime::Error) -> Self {
        Self::Trap(error)
    }
}

/// The module gets this status.
pub(crate) fn stop<T>(status: i32) -> Result<T, Stop> {
    Err(Stop::Status(status))
}

/// What a host function returns to the module.
pub(crate) fn answer(result: Result<(), Stop>) -> wasmtime::Result<i32> {
    match result {
        Ok(()) => Ok(status::OK),
        Err(Stop::Status(status)) => Ok(status),
        Err(Stop::Trap(error)) => Err(error),
    }
}

/// A module that has called the host.
pub(crate) struct Guest<'a>(Caller<'a, Data>);

impl<'a> Guest<'a> {
    /// The call is charged.
    pub(crate) fn new(caller: Caller<'a, Data>) -> Result<Self, Stop> {
        let mut guest = Self(caller);
        guest.charge(0)?;
        Ok(guest)
    }

    pub(crate) fn data(&mut self) -> &mut Data {
        self.0.data_mut()
    }

    /// Takes the fuel for this many bytes.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Stop> {
        let left = self.0.get_fuel()?.checked_sub(CALL.saturating_add(bytes as u64));
        let left = left.ok_or_else(|| wasmtime::Error::from(Trap::OutOfFuel))?;
        Ok(self.0.set_fuel(left)?)
    }

    /// Takes the fuel for a look at this many fields.
    pub(crate) fn charge_fields(&mut self, fields: usize) -> Result<(), Stop> {
        self.charge(fields.saturating_mul(FIELD))
    }

    fn memory(&mut self) -> Result<Memory, Stop> {
        if let Some(memory) = self.0.data().memory {
            return Ok(memory);
        }
        // The module's start function runs before the instance is known.
        let memory = self.0.get_export("memory").and_then(|export| export.into_memory());
        memory.ok_or(Stop::Status(status::INVALID_MEMORY_ACCESS))
    }

    /// Bytes of the module.
    pub(crate) fn read(&mut self, (at, length): Place) -> Result<Vec<u8>, Stop> {
        let (at, length) = (at as u32 as usize, length as u32 as usize);
        if length > MOST {
            return stop(status::BAD_ARGUMENT);
        }
        self.charge(length)?;
        let memory = self.memory()?;
        let bytes = memory.data(self.0.as_context()).get(at..at.saturating_add(length));
        bytes.map(<[u8]>::to_vec).ok_or(Stop::Status(status::INVALID_MEMORY_ACCESS))
    }

    /// Four bytes of the module, as a number.
    pub(crate) fn read_u32(&mut self, at: i32) -> Result<u32, Stop> {
        let bytes = self.read((at, 4))?;
        let four = bytes.try_into().map_err(|_| Stop::Status(status::INVALID_MEMORY_ACCESS))?;
        Ok(u32::from_le_bytes(four))
    }

    /// Puts bytes where the module has room for them.
    pub(crate) fn write(&mut self, at: i32, bytes: &[u8]) -> Result<(), Stop> {
        self.charge(bytes.len())?;
        let memory = self.memory()?;
        let written = memory.write(self.0.as_context_mut(), at as u32 as usize, bytes);
        written.map_err(|_| Stop::Status(status::INVALID_MEMORY_ACCESS))
    }

    pub(crate) fn write_u32(&mut self, at: i32, value: u32) -> Result<(), Stop> {
        self.write(at, &value.to_le_bytes())
    }

    /// Has the module make room, puts the bytes there, and tells it where: `place` is where it wants to read the
    /// address and the length.
    pub(crate) fn give(&mut self, bytes: &[u8], place: Place) -> Result<(), Stop> {
        let mut address = 0;
        if !bytes.is_empty() {
            self.charge(bytes.len())?;
            let allocate = self.0.data().allocate.clone();
            let allocate = allocate.ok_or(Stop::Status(status::INTERNAL_FAILURE))?;
            let length = i32::try_from(bytes.len()).map_err(|_| Stop::Status(status::INTERNAL_FAILURE))?;
            address = allocate.call(self.0.as_context_mut(), length)?;
            if address == 0 {
                return stop(status::INTERNAL_FAILURE);
            }
            self.write(address, bytes)?;
        }
        self.write_u32(place.0, address as u32)?;
        self.write_u32(place.1, bytes.len() as u32)
    }
}
