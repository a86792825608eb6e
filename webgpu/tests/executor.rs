//! The native executor on the adapter of this machine. Without one these fail: `mesa-vulkan-drivers` brings a software one.

#![cfg(feature = "native")]

use torchnative_webgpu::native;
use torchnative_webgpu::program::{Access, Program, Queue, Slice};
use torchnative_webgpu::recorder::{Recorder, is_out_of_memory};

const ADD: &str = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<uniform> params: vec4<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.x) { x[id.x] += params.y; }
}
";

fn program(source: &str) -> Program {
    Program { name: "add".into(), source: source.into(), bindings: vec![Access::ReadWrite], params: 16 }
}

fn recorder() -> Recorder {
    Recorder::new(native::open().expect("an adapter"))
}

fn read(r: &mut Recorder, slice: Slice, offset: u64, len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len];
    let got = r.download(slice, offset, len)?.wait();
    r.finish(got, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn work_takes_effect_in_order() {
    let mut r = recorder();
    let slice = r.allocate(16).unwrap();
    r.upload(slice, 16, 0, &[1; 16]).unwrap();
    r.dispatch(&program(ADD), &[slice], &[4, 1, 0, 0], [1, 1, 1]).unwrap();
    // A write between two dispatches is seen by the second alone.
    r.upload(slice, 16, 4, &[0; 4]).unwrap();
    for _ in 0..3 {
        r.dispatch(&program(ADD), &[slice], &[4, 2, 0, 0], [1, 1, 1]).unwrap();
    }
    let got = read(&mut r, slice, 0, 16).unwrap();
    assert_eq!(got, [8, 1, 1, 1, 6, 0, 0, 0, 8, 1, 1, 1, 8, 1, 1, 1]);
    assert_eq!(read(&mut r, slice, 4, 2).unwrap(), [6, 0]);
    assert_eq!((r.stats.dispatches, r.stats.pipelines, r.stats.readbacks), (4, 1, 2));
}

#[test]
fn large_uploads_arrive_whole() {
    let mut r = recorder();
    let n = (40 << 20) + 3;
    let slice = r.allocate(n as u64).unwrap();
    let bytes: Vec<u8> = (0..n).map(|i| (i as u32).wrapping_mul(2654435761).to_le_bytes()[3]).collect();
    r.upload(slice, n as u64, 0, &bytes).unwrap();
    assert!(read(&mut r, slice, 0, n).unwrap() == bytes);
}

#[test]
fn more_uniforms_than_a_buffer_holds() {
    let mut r = recorder();
    let slice = r.allocate(4).unwrap();
    r.upload(slice, 4, 0, &[0; 4]).unwrap();
    for _ in 0..5000 {
        r.dispatch(&program(ADD), &[slice], &[1, 1, 0, 0], [1, 1, 1]).unwrap();
    }
    assert_eq!(read(&mut r, slice, 0, 4).unwrap(), 5000u32.to_le_bytes());
}

#[test]
fn a_program_that_does_not_compile_breaks_the_device_until_it_is_opened_anew() {
    let mut r = recorder();
    let slice = r.allocate(16).unwrap();
    r.upload(slice, 16, 0, &[3; 16]).unwrap();
    r.dispatch(&program("fn main() { this is no WGSL }"), &[slice], &[4, 1, 0, 0], [1, 1, 1]).unwrap();
    assert!(read(&mut r, slice, 0, 16).is_err());
    let error = read(&mut r, slice, 0, 16).unwrap_err();
    assert!(error.contains("torch.webgpu.reset()"), "{error}");
    assert!(recorder().allocate(4).is_ok());
}

#[test]
fn a_lost_device_is_an_error() {
    let mut r = recorder();
    let slice = r.allocate(16).unwrap();
    r.upload(slice, 16, 0, &[3; 16]).unwrap();
    r.destroy();
    assert!(read(&mut r, slice, 0, 16).is_err());
    assert!(r.allocate(4).is_err());
}

#[test]
fn more_than_the_adapter_binds_is_no_loss() {
    let mut r = recorder();
    let slice = r.allocate(4).unwrap();
    r.upload(slice, 4, 0, &[5; 4]).unwrap();
    let most = r.limits().max_storage_buffer_binding_size;
    let error = r.allocate(most + 1).unwrap_err();
    assert!(!is_out_of_memory(&error) && error.contains("adapter"), "{error}");
    assert_eq!(read(&mut r, slice, 0, 4).unwrap(), [5; 4]);
}
