//! The machine's device tree: the bridge, which is the interrupt controller of the GPU's three lines, and the GPU behind it
//! with its clock.
//!
//! The GPU's node is the RK3588's (kernel, `arch/arm64/boot/dts/rockchip/rk3588-base.dtsi`, `gpu@fb000000`) in a machine
//! of User Mode Linux, as far as panthor asks (`panthor_device.c`, `panthor_devfreq.c`).

use vm_fdt::{Error, FdtWriter};

/// The `compatible` of the machine's root, by which a program inside can tell where it is.
const COMPATIBLE: &str = panthor_uapi::discover::RIG_COMPATIBLE;
/// The GPU's name on the platform bus, which `/sys/bus/platform/drivers/panthor/bind` takes.
pub const DEVICE: &str = "8fb000000.gpu";
/// Physical address of the register window, above any memory of the machine.
const WINDOW: u64 = 0x8_fb00_0000;
/// Its size in bytes (rk3588-base.dtsi).
const WINDOW_BYTES: u64 = 0x20_0000;
/// An operating voltage, in µV; nothing in the machine has a voltage, but an OPP table needs one.
const MICROVOLT: u32 = 850_000;

const CLOCK: u32 = 1;
const OPP: u32 = 2;
const BRIDGE: u32 = 3;
const REGULATOR: u32 = 4;

/// The blob for a GPU that is clocked at `gpu_hz` Hz, with a regulator where the driver needs one.
///
/// # Errors
/// What the writer says; it does not, for the names and values here.
pub fn blob(gpu_hz: u64, regulated: bool) -> Result<Vec<u8>, Error> {
    let window = [WINDOW, WINDOW_BYTES];
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", COMPATIBLE)?;
    fdt.property_string("model", "User Mode Linux with a modelled Mali")?;

    let clock = fdt.begin_node("clock")?;
    fdt.property_string("compatible", "fixed-clock")?;
    fdt.property_u32("#clock-cells", 0)?;
    // The binding has 32 bits: a clock beyond 4.29 GHz is told to the driver as the highest there is.
    fdt.property_u32("clock-frequency", u32::try_from(gpu_hz).unwrap_or(u32::MAX))?;
    fdt.property_phandle(CLOCK)?;
    fdt.end_node(clock)?;

    let table = fdt.begin_node("opp-table")?;
    fdt.property_string("compatible", "operating-points-v2")?;
    fdt.property_phandle(OPP)?;
    let point = fdt.begin_node(&format!("opp-{gpu_hz}"))?;
    fdt.property_u64("opp-hz", gpu_hz)?;
    fdt.property_u32("opp-microvolt", MICROVOLT)?;
    fdt.end_node(point)?;
    fdt.end_node(table)?;

    if regulated {
        let regulator = fdt.begin_node("regulator")?;
        fdt.property_string("compatible", "regulator-fixed")?;
        fdt.property_string("regulator-name", "mali")?;
        fdt.property_u32("regulator-min-microvolt", MICROVOLT)?;
        fdt.property_u32("regulator-max-microvolt", MICROVOLT)?;
        fdt.property_null("regulator-always-on")?;
        fdt.property_phandle(REGULATOR)?;
        fdt.end_node(regulator)?;
    }

    let bridge = fdt.begin_node("mali-bridge")?;
    fdt.property_string("compatible", "uml,mali-bridge")?;
    fdt.property_array_u64("reg", &window)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_phandle(BRIDGE)?;
    fdt.end_node(bridge)?;

    let gpu = fdt.begin_node(&format!("gpu@{WINDOW:x}"))?;
    fdt.property_string_list(
        "compatible",
        vec!["rockchip,rk3588-mali".into(), "arm,mali-valhall-csf".into()],
    )?;
    fdt.property_array_u64("reg", &window)?;
    fdt.property_u32("interrupt-parent", BRIDGE)?;
    fdt.property_array_u32("interrupts", &[0, 1, 2])?;
    fdt.property_string_list(
        "interrupt-names",
        vec!["job".into(), "mmu".into(), "gpu".into()],
    )?;
    fdt.property_u32("clocks", CLOCK)?;
    fdt.property_string("clock-names", "core")?;
    fdt.property_u32("operating-points-v2", OPP)?;
    // As on an RK3588; User Mode Linux counts every device as coherent unless it is told, and the GPU has no ACE-Lite.
    fdt.property_null("dma-noncoherent")?;
    if regulated {
        fdt.property_u32("mali-supply", REGULATOR)?;
    }
    fdt.end_node(gpu)?;

    fdt.end_node(root)?;
    fdt.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_options_and_the_names_are_the_drivers() {
        let blob = blob(1_234_000_000, true).expect("a blob");
        assert_eq!(blob[..4], 0xd00d_feedu32.to_be_bytes());
        let holds = |bytes: &[u8]| blob.windows(bytes.len()).any(|w| w == bytes);
        assert!(holds(&1_234_000_000u32.to_be_bytes()));
        assert!(holds(&1_234_000_000u64.to_be_bytes()));
        for text in [
            "uml,mali-host",
            "gpu@8fb000000",
            "rockchip,rk3588-mali\0arm,mali-valhall-csf\0",
            "job\0mmu\0gpu\0",
        ] {
            assert!(holds(text.as_bytes()), "{text}");
        }
        assert!(DEVICE.starts_with(&format!("{WINDOW:x}.")));
    }
}
