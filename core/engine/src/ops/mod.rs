//! Operators: shape functions and registrations, a file for each family. The arithmetic is in `crate::cpu`.

mod activation;
mod addc;
mod attention;
mod basics;
mod batch_norm;
mod binary;
mod bitwise;
mod blas;
mod clamp;
mod comparison;
mod complex;
mod concat;
mod conv;
pub mod copy;
mod distance;
mod division;
pub(crate) mod elements;
mod factories;
mod foreach;
mod indexing;
#[cfg(test)]
mod indexing_tests;
mod linear;
mod masked;
mod minmax;
mod norm;
mod normalization;
pub(crate) mod options;
mod pad;
mod pointwise;
mod power;
mod queries;
mod pool;
mod random;
mod reduce;
mod rounding;
mod scan;
mod scatter_gather;
mod softmax;
mod sort;
mod storage;
mod unary;
mod view_forms;
pub(crate) mod views;

use crate::dispatch::Registry;
use std::sync::Once;

/// Registers every operator; runs once.
pub fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let r = &mut Registry::new();
        copy::register(r);
        blas::register(r);
        linear::register(r);
        reduce::register(r);
        minmax::register(r);
        sort::register(r);
        scan::register(r);
        softmax::register(r);
        normalization::register(r);
        norm::register(r);
        batch_norm::register(r);
        distance::register(r);
        pointwise::register(r);
        random::register(r);
        basics::register(r);
        activation::register(r);
        addc::register(r);
        binary::register(r);
        bitwise::register(r);
        complex::register(r);
        foreach::register(r);
        crate::dispatch::math_bits::register();
        clamp::register(r);
        division::register(r);
        power::register(r);
        queries::register(r);
        rounding::register(r);
        comparison::register(r);
        unary::register(r);
        factories::register(r);
        views::register(r);
        view_forms::register(r);
        scatter_gather::register(r);
        storage::register(r);
        masked::register(r);
        indexing::register(r);
        concat::register(r);
        attention::register(r);
        conv::register(r);
        pad::register(r);
        pool::register(r);
    });
}
