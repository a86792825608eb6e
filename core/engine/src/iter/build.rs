//! Building an iteration.

use super::types::{ResultType, default_dtype};
use super::{Operand, TensorIterator};
use crate::ivalue::IntList;
use crate::tensor::{factory, memory, shape};
use crate::{DType, Device, MemoryFormat, Result, Tensor, bail, check};
use smallvec::SmallVec;

/// What an iteration is to be; the names are upstream's, shortened.
#[derive(Default)]
pub struct TensorIteratorConfig {
    outputs: SmallVec<[Option<Tensor>; 2]>,
    inputs: SmallVec<[Tensor; 3]>,
    promote: bool,
    integer_to_float: bool,
    cast_outputs: bool,
    safe_casting: bool,
    cpu_scalars: bool,
    same_dtype: bool,
    output_dtype: Option<DType>,
    static_shape: Option<IntList>,
    no_resize: bool,
    skip_overlap_check: bool,
    device: Option<Device>,
    reduction: bool,
}

macro_rules! flags {
    ($($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        pub fn $name(mut self) -> Self { self.$name = true; self }
    )*};
}

impl TensorIteratorConfig {
    /// An output; absent ones are allocated.
    pub fn output(mut self, t: Option<&Tensor>) -> Self {
        self.outputs.push(t.cloned());
        self
    }
    pub fn input(mut self, t: &Tensor) -> Self {
        self.inputs.push(t.clone());
        self
    }
    /// The dtype the loop writes, whatever the inputs are.
    pub fn output_dtype(mut self, d: DType) -> Self {
        self.output_dtype = Some(d);
        self
    }
    /// Iterates over this shape instead of the broadcast one; operands must expand to it already (`restride`d).
    pub fn static_shape(mut self, s: &[i64]) -> Self {
        self.static_shape = Some(IntList::from_slice(s));
        self
    }
    /// The device of allocated outputs when there is no input.
    pub fn on(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    flags! {
        promote: "`promote_inputs_to_common_dtype`: inputs are converted to the common dtype.";
        integer_to_float: "`promote_integer_inputs_to_float`";
        cast_outputs: "`cast_common_dtype_to_outputs`: outputs of another dtype are written by way of a temporary.";
        safe_casting: "`enforce_safe_casting_to_output`";
        cpu_scalars: "`allow_cpu_scalars`: 0-d CPU tensors mix with tensors on other devices.";
        same_dtype: "`check_all_same_dtype`";
        no_resize: "`resize_outputs(false)`: outputs must have the iteration's shape.";
        skip_overlap_check: "`set_check_mem_overlap(false)`";
        reduction: "`is_reduction`: outputs may have dimensions of stride 0.";
    }

    /// Computes shape, dtypes and strides, and allocates outputs.
    ///
    /// # Errors
    /// Upstream's: shapes that do not broadcast, dtypes that do not promote or cast, overlapping memory, mixed devices.
    pub fn build(self) -> Result<TensorIterator> {
        let num_outputs = self.outputs.len();
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
        for t in &self.outputs {
            operands.push(Operand {
                dtype: t.as_ref().map_or(DType::Float, |t| t.dtype()),
                tensor: t.clone(),
                original: None,
                is_output: true,
                strides: IntList::new(),
                will_resize: false,
                read_write: t.as_ref().is_some_and(|t| self.inputs.iter().any(|i| i.is_same(t))),
            });
        }
        for t in &self.inputs {
            operands.push(Operand {
                dtype: t.dtype(),
                tensor: Some(t.clone()),
                original: None,
                is_output: false,
                strides: IntList::new(),
                will_resize: false,
                read_write: false,
            });
        }
        let mut it = TensorIterator {
            operands,
            num_outputs,
            shape: IntList::new(),
            full_shape: IntList::new(),
            perm: SmallVec::new(),
            common_dtype: DType::Float,
            device: Device::CPU,
            is_reduction: self.reduction,
        };
        if !self.skip_overlap_check {
            it.check_overlap()?;
        }
        let all_same_shape = self.compute_shape(&mut it)?;
        self.compute_device(&mut it)?;
        self.compute_types(&mut it)?;
        if self.static_shape.is_some() || !(all_same_shape && it.fast_set_up()?) {
            it.compute_strides();
            it.reorder();
            it.allocate_outputs()?;
            it.coalesce();
        }
        Ok(it)
    }

    /// Returns whether every operand has the iteration's shape already.
    fn compute_shape(&self, it: &mut TensorIterator) -> Result<bool> {
        if let Some(s) = &self.static_shape {
            it.full_shape = s.clone();
            return Ok(false);
        }
        let mut first = true;
        let mut same = true;
        for i in 0..it.operands.len() {
            let op = &it.operands[i];
            let Some(t) = &op.tensor else { continue };
            // Outputs that are not inputs too are resized to fit, so they do not take part.
            if op.is_output && !self.no_resize && !op.read_write {
                continue;
            }
            if first {
                it.full_shape = IntList::from_slice(t.sizes());
                first = false;
            } else if t.sizes() != &it.full_shape[..] {
                same = false;
                it.full_shape = shape::broadcast(&it.full_shape, t.sizes())?;
            }
        }
        if first && let Some(t) = it.operands.iter().find_map(|o| o.tensor.as_ref()) {
            // Outputs alone: a nullary iteration.
            it.full_shape = IntList::from_slice(t.sizes());
        }
        for i in 0..it.num_outputs {
            let full = it.full_shape.clone();
            let op = &mut it.operands[i];
            if let Some(t) = &op.tensor
                && t.sizes() != &full[..]
                && !self.reduction
            {
                if !self.no_resize && !op.read_write {
                    op.will_resize = true;
                } else {
                    bail!(
                        Runtime,
                        "output with shape {:?} doesn't match the broadcast shape {:?}",
                        t.sizes(),
                        &full[..]
                    );
                }
            }
        }
        Ok(same)
    }

    fn compute_device(&self, it: &mut TensorIterator) -> Result<()> {
        let mut device = None;
        for op in &it.operands {
            let Some(t) = &op.tensor else { continue };
            if self.cpu_scalars && !op.is_output && t.dim() == 0 && t.is_cpu() {
                continue;
            }
            match device {
                None => device = Some(t.device()),
                Some(d) => check!(
                    d == t.device(),
                    "Expected all tensors to be on the same device, but found at least two devices, {d} and {}!",
                    t.device()
                ),
            }
        }
        let first = it.operands.iter().find_map(|o| o.tensor.as_ref().map(|t| t.device()));
        it.device = device.or(first).or(self.device).unwrap_or(Device::CPU);
        Ok(())
    }

    fn compute_types(&self, it: &mut TensorIterator) -> Result<()> {
        let inputs = &it.operands[it.num_outputs..];
        let first = inputs.first().map(|o| o.dtype);
        let uniform = first.is_some() && inputs.iter().all(|o| Some(o.dtype) == first);
        let mut common =
            if uniform && !inputs.iter().any(|o| o.tensor.as_ref().is_some_and(|t| t.is_wrapped_number())) {
                first.unwrap_or(default_dtype())
            } else if self.promote {
                let mut r = ResultType::default();
                for o in inputs {
                    if let Some(t) = &o.tensor {
                        r.add(t)?;
                    }
                }
                if inputs.is_empty() { it.operands[0].dtype } else { r.finish()? }
            } else {
                first.unwrap_or_else(|| it.operands.first().map_or(DType::Float, |o| o.dtype))
            };
        if self.same_dtype
            && let Some(bad) = it.operands.iter().filter(|o| o.tensor.is_some()).find(|o| o.dtype != common)
        {
            bail!(Runtime, "Found dtype {} but expected {}", bad.dtype, common);
        }
        if self.integer_to_float && common.is_integral(true) {
            common = default_dtype();
        }
        it.common_dtype = common;
        let out_dtype = self.output_dtype.unwrap_or(common);
        let on_cpu = it.device.is_cpu();
        for op in &mut it.operands {
            if op.is_output {
                match &op.tensor {
                    None => op.dtype = out_dtype,
                    Some(t) => {
                        if self.safe_casting {
                            check!(
                                crate::dtype::can_cast(common, t.dtype()),
                                "result type {common} can't be cast to the desired output type {}",
                                t.dtype()
                            );
                        }
                        if self.cast_outputs && t.dtype() != out_dtype {
                            op.dtype = out_dtype;
                            if op.will_resize {
                                memory::resize_output(t, &it.full_shape, None)?;
                                op.will_resize = false;
                            }
                            let temp = factory::empty_like(t, out_dtype, MemoryFormat::Preserve)?;
                            op.original = op.tensor.replace(temp);
                        }
                    }
                }
            } else if self.promote && op.dtype != common {
                op.dtype = common;
                if on_cpu && let Some(t) = &op.tensor {
                    let converted = crate::ops::copy::convert(t, common)?;
                    op.original = op.tensor.replace(converted);
                }
            }
        }
        Ok(())
    }
}

impl TensorIterator {
    fn check_overlap(&self) -> Result<()> {
        for o in &self.operands[..self.num_outputs] {
            let Some(out) = &o.tensor else { continue };
            memory::assert_no_internal_overlap(out)?;
            for i in &self.operands[self.num_outputs..] {
                if let Some(t) = &i.tensor {
                    memory::assert_no_partial_overlap(out, t)?;
                }
            }
        }
        Ok(())
    }

    /// When all operands have one shape and one dense layout the iteration is one dimension.
    fn fast_set_up(&mut self) -> Result<bool> {
        if self.is_reduction
            || self.operands.iter().any(|o| o.is_output && o.tensor.is_some() && o.will_resize)
        {
            return Ok(false);
        }
        let defined = || self.operands.iter().filter_map(|o| o.tensor.as_ref());
        if defined().any(|t| t.sizes() != &self.full_shape[..]) {
            return Ok(false);
        }
        let strides = if defined().all(|t| t.is_contiguous()) {
            None
        } else if defined().all(|t| t.is_contiguous_format(MemoryFormat::ChannelsLast)) {
            Some(shape::channels_last_strides(&self.full_shape))
        } else {
            let Some(first) = defined().next() else { return Ok(false) };
            let first = IntList::from_slice(first.strides());
            if !defined().all(|t| t.is_non_overlapping_and_dense() && t.strides() == &first[..]) {
                return Ok(false);
            }
            Some(first)
        };
        for i in 0..self.num_outputs {
            if self.operands[i].tensor.is_none() {
                let d = self.operands[i].dtype;
                let t = match &strides {
                    None => factory::empty(&self.full_shape, d, self.device)?,
                    Some(st) => factory::empty_strided(&self.full_shape, st, d, self.device)?,
                };
                self.operands[i].tensor = Some(t);
            }
        }
        let n: i64 = self.full_shape.iter().product();
        self.shape = IntList::from_slice(&[n]);
        for o in &mut self.operands {
            // What remains of a dtype mismatch is a tensor on another device kind (meta): strides matter not.
            let size = o.tensor.as_ref().map_or(0, |t| t.itemsize() as i64);
            o.strides = IntList::from_slice(&[size]);
        }
        Ok(true)
    }

    fn compute_strides(&mut self) {
        let n = self.full_shape.len();
        for o in &mut self.operands {
            let Some(t) = &o.tensor else { continue };
            if o.will_resize {
                continue;
            }
            let pad = n - t.dim().min(n);
            let mut st = IntList::from_elem(0, n);
            for d in pad..n {
                let (size, stride) = (t.sizes()[d - pad], t.strides()[d - pad]);
                st[d] = if size == 1 && self.full_shape[d] != 1 { 0 } else { stride * t.itemsize() as i64 };
            }
            o.strides = st;
        }
    }

    /// Sorts dimensions by stride, fastest first (`reorder_dimensions`).
    fn reorder(&mut self) {
        let n = self.full_shape.len();
        self.perm = (0..n as u8).rev().collect();
        let mut order: SmallVec<[u8; 6]> = self.perm.clone();
        let should_swap = |a: usize, b: usize| -> i32 {
            for o in &self.operands {
                if o.strides.is_empty() || o.will_resize {
                    continue;
                }
                let (sa, sb) = (o.strides[a], o.strides[b]);
                if self.is_reduction && o.is_output && (sa == 0) != (sb == 0) {
                    // Reduced dimensions go first.
                    return if sa == 0 { -1 } else { 1 };
                }
                if sa == 0 || sb == 0 {
                    continue;
                }
                if sa != sb {
                    return if sa < sb { -1 } else { 1 };
                }
                if self.full_shape[a] > self.full_shape[b] {
                    return 1;
                }
            }
            0
        };
        for i in 1..n {
            let mut dim1 = i;
            for dim0 in (0..i).rev() {
                match should_swap(order[dim0] as usize, order[dim1] as usize) {
                    1 => {
                        order.swap(dim0, dim1);
                        dim1 = dim0;
                    }
                    -1 => break,
                    _ => {}
                }
            }
        }
        self.perm = order;
        self.shape = self.perm.iter().map(|&p| self.full_shape[p as usize]).collect();
        let perm = &self.perm;
        for o in &mut self.operands {
            if !o.strides.is_empty() {
                o.strides = perm.iter().map(|&p| o.strides[p as usize]).collect();
            }
        }
    }

    /// Allocates or resizes outputs with strides in the iteration's order.
    fn allocate_outputs(&mut self) -> Result<()> {
        let n = self.shape.len();
        for i in 0..self.num_outputs {
            let o = &self.operands[i];
            if o.tensor.is_some() && !o.will_resize {
                continue;
            }
            let mut elem = IntList::from_elem(0, n);
            let mut iter_strides = IntList::from_elem(0, n);
            let mut acc = 1;
            for (k, &p) in self.perm.iter().enumerate() {
                elem[p as usize] = acc;
                iter_strides[k] = acc;
                acc *= self.shape[k].max(1);
            }
            let o = &mut self.operands[i];
            match &o.tensor {
                None => {
                    o.tensor = Some(factory::empty_strided(&self.full_shape, &elem, o.dtype, self.device)?)
                }
                Some(t) => {
                    memory::resize_output(t, &self.full_shape, Some(&elem))?;
                    o.will_resize = false;
                }
            }
            let size = o.dtype.itemsize() as i64;
            o.strides = iter_strides.iter().map(|s| s * size).collect();
        }
        Ok(())
    }

    /// Merges dimensions that every operand walks as one.
    fn coalesce(&mut self) {
        if self.shape.is_empty() {
            // A 0-d iteration is one step.
            self.shape = IntList::from_slice(&[1]);
            self.operands.iter_mut().for_each(|o| o.strides = IntList::from_slice(&[0]));
            return;
        }
        let mut prev = 0;
        for d in 1..self.shape.len() {
            let (s0, s1) = (self.shape[prev], self.shape[d]);
            let can =
                s0 == 1 || s1 == 1 || self.operands.iter().all(|o| s0 * o.strides[prev] == o.strides[d]);
            if can {
                if s0 == 1 {
                    self.operands.iter_mut().for_each(|o| o.strides[prev] = o.strides[d]);
                }
                self.shape[prev] *= s1;
            } else {
                prev += 1;
                if prev != d {
                    self.operands.iter_mut().for_each(|o| o.strides[prev] = o.strides[d]);
                    self.shape[prev] = s1;
                }
            }
        }
        self.shape.truncate(prev + 1);
        self.operands.iter_mut().for_each(|o| o.strides.truncate(prev + 1));
    }
}
