//! Recurrent networks: LSTM, GRU and plain cells and layers, over padded and packed sequences.

use crate::dispatch::{Registry, Returns};
use crate::ivalue::{Args, IntList};
use crate::ops::copy;
use crate::tensor::factory;
use crate::{DType, Result, Tensor, bail, check, op};

pub(crate) fn register(r: &mut Registry) {
    r.implicit(op::lstm_input, |a| padded(a, Kind::Lstm))
        .implicit(op::gru_input, |a| padded(a, Kind::Gru))
        .implicit(op::rnn_tanh_input, |a| padded(a, Kind::Tanh))
        .implicit(op::rnn_relu_input, |a| padded(a, Kind::Relu))
        .implicit(op::lstm_data, |a| packed(a, Kind::Lstm))
        .implicit(op::gru_data, |a| packed(a, Kind::Gru))
        .implicit(op::rnn_tanh_data, |a| packed(a, Kind::Tanh))
        .implicit(op::rnn_relu_data, |a| packed(a, Kind::Relu))
        .implicit(op::lstm_cell, |a| {
            let hx = a.tensor_list(1)?;
            check!(hx.len() == 2, "lstm_cell expects two hidden states");
            let state = State { h: hx[0].clone(), c: Some(hx[1].clone()) };
            let next = one_cell(a, Kind::Lstm, state)?;
            let Some(c) = next.c else { bail!(Internal, "an LSTM without a cell state") };
            Ok((next.h, c).into())
        })
        .implicit(op::gru_cell, |a| plain_cell(a, Kind::Gru))
        .implicit(op::rnn_tanh_cell, |a| plain_cell(a, Kind::Tanh))
        .implicit(op::rnn_relu_cell, |a| plain_cell(a, Kind::Relu))
        .explicit(op::_pack_padded_sequence, pack)
        .implicit(op::_pad_packed_sequence, unpack);
}

/// Which recurrence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Lstm => "lstm",
            Kind::Gru => "gru",
            Kind::Tanh => "rnn_tanh",
            Kind::Relu => "rnn_relu",
        }
    }
}

/// What a layer carries from step to step.
#[derive(Clone)]
struct State {
    h: Tensor,
    /// The cell state of an LSTM.
    c: Option<Tensor>,
}

impl State {
    fn each(&self, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<State> {
        Ok(State { h: f(&self.h)?, c: self.c.as_ref().map(&f).transpose()? })
    }
    /// The states of entries `from..to`.
    fn slice(&self, from: i64, to: i64) -> Result<State> {
        self.each(|t| op::narrow.call((t, 0, from, to - from)))
    }
    /// States of several groups of entries, one after the other.
    fn concat(parts: &[State]) -> Result<State> {
        if let [only] = parts {
            return Ok(only.clone());
        }
        let h: Vec<Tensor> = parts.iter().map(|s| s.h.clone()).collect();
        let c: Vec<Tensor> = parts.iter().filter_map(|s| s.c.clone()).collect();
        Ok(State {
            h: op::cat.call((h, 0))?,
            c: if c.is_empty() { None } else { Some(op::cat.call((c, 0))?) },
        })
    }
}

/// The parameters of one direction of one layer.
#[derive(Clone)]
struct Cell {
    kind: Kind,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Option<Tensor>,
    b_hh: Option<Tensor>,
    /// The projection of an LSTM's output.
    w_hr: Option<Tensor>,
}

impl Cell {
    /// The input's part of the gates, for one step or for many at once.
    fn input(&self, x: &Tensor) -> Result<Tensor> {
        op::linear.call((x, &self.w_ih, self.b_ih.as_ref()))
    }

    /// One step, from the input's part of the gates.
    fn step(&self, gates: &Tensor, s: &State) -> Result<State> {
        let hidden = op::linear.call((&s.h, &self.w_hh, self.b_hh.as_ref()))?;
        let add = |x: &Tensor, y: &Tensor| op::add_Tensor.call((x, y));
        let mul = |x: &Tensor, y: &Tensor| op::mul_Tensor.call((x, y));
        match self.kind {
            Kind::Tanh => Ok(State { h: op::tanh.call((add(&hidden, gates)?,))?, c: None }),
            Kind::Relu => Ok(State { h: op::relu.call((add(&hidden, gates)?,))?, c: None }),
            Kind::Gru => {
                let x = op::unsafe_chunk.call_list((gates, 3, 1))?;
                let h = op::unsafe_chunk.call_list((&hidden, 3, 1))?;
                let reset = op::sigmoid.call((add(&h[0], &x[0])?,))?;
                let update = op::sigmoid.call((add(&h[1], &x[1])?,))?;
                let new = op::tanh.call((add(&x[2], &mul(&h[2], &reset)?)?,))?;
                let rest = op::sub_Tensor.call((&s.h, &new))?;
                Ok(State { h: add(&mul(&rest, &update)?, &new)?, c: None })
            }
            Kind::Lstm => {
                let Some(c) = &s.c else { bail!(Internal, "an LSTM without a cell state") };
                let g = op::unsafe_chunk.call_list((add(&hidden, gates)?, 4, 1))?;
                let open = op::sigmoid.call((&g[0],))?;
                let forget = op::sigmoid.call((&g[1],))?;
                let new = op::tanh.call((&g[2],))?;
                let show = op::sigmoid.call((&g[3],))?;
                let c = add(&mul(&forget, c)?, &mul(&open, &new)?)?;
                let mut h = mul(&show, &op::tanh.call((&c,))?)?;
                if let Some(w) = &self.w_hr {
                    h = op::linear.call((h, w))?;
                }
                Ok(State { h, c: Some(c) })
            }
        }
    }
}

/// (input, hx, w_ih, w_hh, b_ih, b_hh)
fn one_cell(a: Args<'_>, kind: Kind, state: State) -> Result<State> {
    let (x, w_ih, w_hh) = (a.tensor(0)?, a.tensor(2)?, a.tensor(3)?);
    let (b_ih, b_hh) = (a.opt_tensor(4).cloned(), a.opt_tensor(5).cloned());
    let name = kind.name();
    check!(
        x.dim() == 2 || x.dim() == 1,
        "{name}_cell: Expected input to be 1D or 2D, got {}D instead",
        x.dim()
    );
    let cell = Cell { kind, w_ih: w_ih.clone(), w_hh: w_hh.clone(), b_ih, b_hh, w_hr: None };
    check_cell(x, &state, &cell)?;
    cell.step(&cell.input(x)?, &state)
}

fn check_cell(x: &Tensor, s: &State, cell: &Cell) -> Result<()> {
    let (n, width) = (x.dim(), cell.w_ih.size(1)?);
    check!(
        x.sizes()[n - 1] == width,
        "input has inconsistent input_size: got {} expected {width}",
        x.sizes()[n - 1]
    );
    let hidden = cell.w_hh.size(1)?;
    for (i, h) in std::iter::once(&s.h).chain(&s.c).enumerate() {
        check!(
            h.dim() == n && h.sizes()[..n - 1] == x.sizes()[..n - 1],
            "Input batch size {} doesn't match hidden{i} batch size {}",
            x.sizes()[0],
            h.sizes().first().copied().unwrap_or(0)
        );
        check!(
            h.sizes()[n - 1] == hidden,
            "hidden{i} has inconsistent hidden_size: got {}, expected {hidden}",
            h.sizes()[n - 1]
        );
    }
    Ok(())
}

fn plain_cell(a: Args<'_>, kind: Kind) -> Result<Returns> {
    Ok(one_cell(a, kind, State { h: a.tensor(1)?.clone(), c: None })?.h.into())
}

/// The parameters of every layer and direction.
fn cells(kind: Kind, params: &[Tensor], biases: bool, projected: bool) -> Result<Vec<Cell>> {
    let each = 2 + if biases { 2 } else { 0 } + usize::from(projected);
    check!(params.len().is_multiple_of(each), "got an incorrect number of RNN parameters");
    Ok(params
        .chunks(each)
        .map(|p| Cell {
            kind,
            w_ih: p[0].clone(),
            w_hh: p[1].clone(),
            b_ih: biases.then(|| p[2].clone()),
            b_hh: biases.then(|| p[3].clone()),
            w_hr: projected.then(|| p[each - 1].clone()),
        })
        .collect())
}

/// The initial states of every layer and direction.
fn states(hx: &[Tensor]) -> Result<Vec<State>> {
    let h = op::unbind_int.call_list((&hx[0], 0))?;
    let c = match hx.get(1) {
        Some(c) => op::unbind_int.call_list((c, 0))?.into_iter().map(Some).collect(),
        None => vec![None; h.len()],
    };
    check!(h.len() == c.len(), "lstm expects two hidden states of the same number of layers");
    Ok(h.into_iter().zip(c).map(|(h, c)| State { h, c }).collect())
}

/// What all layers share.
struct Network {
    kind: Kind,
    layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
}

/// A sequence: all steps of equal batch, or packed with the number of entries of each step.
enum Sequence<'a> {
    Padded(Tensor),
    Packed(Tensor, &'a [i64]),
}

impl Network {
    /// (…, params, has_biases, num_layers, dropout, train, bidirectional) from argument `i` on.
    fn read(a: Args<'_>, kind: Kind, i: usize) -> Result<Network> {
        Ok(Network {
            kind,
            layers: a.int(i + 1)?,
            dropout: a.double(i + 2)?,
            train: a.bool(i + 3)?,
            bidirectional: a.bool(i + 4)?,
        })
    }

    /// Runs all layers; the output of the last and the final states.
    fn run(
        &self,
        x: Sequence<'_>,
        hx: &[Tensor],
        params: &[Tensor],
        biases: bool,
    ) -> Result<(Tensor, Vec<State>)> {
        let projected = self.kind == Kind::Lstm
            && hx.len() == 2
            && hx[0].dim() == 3
            && hx[0].sizes()[2] != hx[1].size(2)?;
        let (cells, states) = (cells(self.kind, params, biases, projected)?, states(hx)?);
        let directions = if self.bidirectional { 2 } else { 1 };
        let wanted = self.layers as usize * directions;
        check!(
            cells.len() == wanted && states.len() == wanted,
            "Expected {wanted} layers of parameters and hidden states, but got {} and {}",
            cells.len(),
            states.len()
        );
        let mut x = x;
        let mut finals = Vec::with_capacity(wanted);
        for layer in 0..self.layers as usize {
            let mut outputs = Vec::with_capacity(directions);
            for d in 0..directions {
                let i = layer * directions + d;
                let (out, last) = match &x {
                    Sequence::Padded(x) => steps(&cells[i], x, &states[i], d == 1)?,
                    Sequence::Packed(x, sizes) => packed_steps(&cells[i], x, sizes, &states[i], d == 1)?,
                };
                outputs.push(out);
                finals.push(last);
            }
            let mut out = if directions == 1 {
                outputs.remove(0)
            } else {
                let last = outputs[0].dim() as i64 - 1;
                op::cat.call((outputs, last))?
            };
            if self.dropout != 0.0 && self.train && layer + 1 < self.layers as usize {
                out = op::dropout.call((out, self.dropout, true))?;
            }
            x = match x {
                Sequence::Padded(_) => Sequence::Padded(out),
                Sequence::Packed(_, sizes) => Sequence::Packed(out, sizes),
            };
        }
        let (Sequence::Padded(out) | Sequence::Packed(out, _)) = x;
        Ok((out, finals))
    }
}

/// One direction of one layer over (steps, batch, width).
fn steps(cell: &Cell, x: &Tensor, start: &State, reverse: bool) -> Result<(Tensor, State)> {
    let gates = op::unbind_int.call_list((cell.input(x)?, 0))?;
    let mut outputs = Vec::with_capacity(gates.len());
    let mut state = start.clone();
    let order: Vec<usize> =
        if reverse { (0..gates.len()).rev().collect() } else { (0..gates.len()).collect() };
    for i in order {
        state = cell.step(&gates[i], &state)?;
        outputs.push(state.h.clone());
    }
    if reverse {
        outputs.reverse();
    }
    check!(!outputs.is_empty(), "Expected sequence length to be larger than 0 in RNN");
    Ok((op::stack.call((outputs, 0))?, state))
}

/// One direction of one layer over packed rows: step `i` has `sizes[i]` entries, never more than the step before.
fn packed_steps(
    cell: &Cell,
    x: &Tensor,
    sizes: &[i64],
    start: &State,
    reverse: bool,
) -> Result<(Tensor, State)> {
    check!(!sizes.is_empty(), "batch_sizes can not be empty");
    let gates = cell.input(x)?;
    let mut outputs = Vec::with_capacity(sizes.len());
    let rows = |offset: i64, n: i64| op::narrow.call((&gates, 0, offset, n));
    if reverse {
        // The longest entries begin alone; others join where they end.
        let mut offset = x.sizes()[0];
        let mut have = sizes[sizes.len() - 1];
        let mut state = start.slice(0, have)?;
        for &n in sizes.iter().rev() {
            if n > have {
                state = State::concat(&[state, start.slice(have, n)?])?;
            }
            have = n;
            offset -= n;
            state = cell.step(&rows(offset, n)?, &state)?;
            outputs.push(state.h.clone());
        }
        outputs.reverse();
        return Ok((op::cat.call((outputs, 0))?, state));
    }
    let mut offset = 0;
    let mut have = sizes[0];
    let mut state = start.clone();
    let mut ended = Vec::new();
    for &n in sizes {
        if n < have {
            ended.push(state.slice(n, have)?);
            state = state.slice(0, n)?;
        }
        have = n;
        state = cell.step(&rows(offset, n)?, &state)?;
        offset += n;
        outputs.push(state.h.clone());
    }
    ended.push(state);
    ended.reverse();
    Ok((op::cat.call((outputs, 0))?, State::concat(&ended)?))
}

/// The output with the stacked final states.
fn results(out: Tensor, finals: Vec<State>) -> Result<Returns> {
    let h: Vec<Tensor> = finals.iter().map(|s| s.h.clone()).collect();
    let c: Vec<Tensor> = finals.iter().filter_map(|s| s.c.clone()).collect();
    let h = op::stack.call((h, 0))?;
    if c.is_empty() { Ok((out, h).into()) } else { Ok((out, h, op::stack.call((c, 0))?).into()) }
}

/// The initial states: a list for an LSTM, a tensor otherwise.
fn initial(a: Args<'_>, i: usize, kind: Kind) -> Result<Vec<Tensor>> {
    if kind != Kind::Lstm {
        return Ok(vec![a.tensor(i)?.clone()]);
    }
    let hx = a.tensor_list(i)?;
    check!(hx.len() == 2, "lstm expects two hidden states");
    Ok(hx.to_vec())
}

/// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
fn padded(a: Args<'_>, kind: Kind) -> Result<Returns> {
    let hx = initial(a, 1, kind)?;
    let batch_first = a.bool(8)?;
    let turn = |t: &Tensor| op::transpose_int.call((t, 0, 1));
    let x = if batch_first { turn(a.tensor(0)?)? } else { a.tensor(0)?.clone() };
    let network = Network::read(a, kind, 3)?;
    let (out, finals) = network.run(Sequence::Padded(x), &hx, a.tensor_list(2)?, a.bool(3)?)?;
    results(if batch_first { turn(&out)? } else { out }, finals)
}

/// (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
fn packed(a: Args<'_>, kind: Kind) -> Result<Returns> {
    let hx = initial(a, 2, kind)?;
    let sizes = numbers(a.tensor(1)?, "batch_sizes")?;
    check!(
        sizes.windows(2).all(|w| w[0] >= w[1]) && sizes.iter().all(|n| *n > 0),
        "batch_sizes should be positive and decreasing"
    );
    let network = Network::read(a, kind, 4)?;
    let x = Sequence::Packed(a.tensor(0)?.clone(), &sizes);
    let (out, finals) = network.run(x, &hx, a.tensor_list(3)?, a.bool(4)?)?;
    results(out, finals)
}

/// The values of a one-dimensional int64 tensor on the CPU.
fn numbers(t: &Tensor, name: &str) -> Result<Vec<i64>> {
    check!(
        t.dim() == 1 && t.dtype() == DType::Long && t.is_cpu(),
        "'{name}' argument should be a 1D CPU int64 tensor, but got {}D {} {} tensor",
        t.dim(),
        t.device(),
        t.dtype().scalar_type_name()
    );
    let flat = copy::contiguous(t)?;
    // SAFETY: a row-major tensor of int64.
    Ok(unsafe { flat.as_slice::<i64>() }.to_vec())
}

/// _pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)
fn pack(a: Args<'_>) -> Result<Returns> {
    let lengths = numbers(a.tensor(1)?, "lengths")?;
    let x = if a.bool(2)? { op::transpose_int.call((a.tensor(0)?, 0, 1))? } else { a.tensor(0)?.clone() };
    check!(x.numel() > 0, "Cannot pack empty tensors.");
    check!(
        lengths.len() as i64 == x.size(1)?,
        "Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={})",
        lengths.len(),
        x.size(1)?
    );
    check!(
        lengths[lengths.len() - 1] > 0,
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
    );
    check!(
        lengths.windows(2).all(|w| w[0] >= w[1]),
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to \
         pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
    );
    check!(
        lengths[0] <= x.sizes()[0],
        "Expected lengths of at most {}, but got {}",
        x.sizes()[0],
        lengths[0]
    );
    let sizes: Vec<i64> =
        (0..lengths[0]).map(|t| lengths.iter().filter(|l| **l > t).count() as i64).collect();
    let mut rows = Vec::with_capacity(sizes.len());
    for (t, n) in sizes.iter().enumerate() {
        rows.push(op::narrow.call((op::select_int.call((&x, 0, t as i64))?, 0, 0, *n))?);
    }
    Ok((op::cat.call((rows, 0))?, factory::from_slice(&sizes)?).into())
}

/// _pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length)
/// -> (Tensor, Tensor)
fn unpack(a: Args<'_>) -> Result<Returns> {
    let data = a.tensor(0)?;
    let sizes = numbers(a.tensor(1)?, "batch_sizes")?;
    check!(!sizes.is_empty(), "batch_sizes can not be empty");
    let mut steps = sizes.len() as i64;
    let total = a.int(4)?;
    if total > 0 {
        check!(
            total >= steps,
            "Expected total_length to be at least the length of the longest sequence in input, but got total_length={total} and \
             max sequence length being {steps}"
        );
        steps = total;
    }
    let batch = sizes[0];
    let mut shape = IntList::from_slice(&[steps, batch]);
    shape.extend_from_slice(&data.sizes()[1..]);
    let value = a.scalar(3)?;
    let out = op::full.call((shape, value, data.dtype(), (), data.device()))?;
    let mut lengths = vec![0i64; batch as usize];
    let mut offset = 0;
    for (t, &n) in sizes.iter().enumerate() {
        check!(n <= batch && n > 0, "batch_sizes should be positive and decreasing");
        let place = op::narrow.call((op::select_int.call((&out, 0, t as i64))?, 0, 0, n))?;
        op::copy_.call((place, op::narrow.call((data, 0, offset, n))?))?;
        offset += n;
        lengths[..n as usize].iter_mut().for_each(|l| *l = t as i64 + 1);
    }
    let out = if a.bool(2)? { op::transpose_int.call((out, 0, 1))? } else { out };
    Ok((out, factory::from_slice(&lengths)?).into())
}
