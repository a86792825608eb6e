//! What the methods that upstream binds by hand take, in the notation of the generated table.

use super::methods::METHODS;
use crate::parser::HandBound;
use std::sync::LazyLock;

macro_rules! takes {
    ($($name:ident ( $($text:literal),* ))*) => {
        vec![$(HandBound::new(stringify!($name), &[$($text),*])),*]
    };
}

/// Methods that are not listed look at their arguments themselves.
static TAKES: LazyLock<Vec<HandBound>> = LazyLock::new(|| {
    takes! {
        __bool__()
        __nonzero__()
        __float__()
        __complex__()
        __int__()
        __long__()
        __index__()
        __invert__()
        dim()
        ndimension()
        numel()
        nelement()
        storage_offset()
        element_size()
        data_ptr()
        const_data_ptr()
        get_device()
        item()
        tolist()
        retain_grad()
        _is_view()
        untyped_storage()
        size("size(int64_t? dim=None)")
        stride("stride(int64_t? dim=None)")
        contiguous("contiguous(*, MemoryFormat memory_format=c10::MemoryFormat::Contiguous)")
        is_contiguous("is_contiguous(*, MemoryFormat memory_format=c10::MemoryFormat::Contiguous)")
        requires_grad_("requires_grad_(bool requires_grad=True)")
        copy_("copy_(Tensor other, bool non_blocking=False)", "|copy_(Tensor other, bool async=False)")
        cpu("cpu(*, MemoryFormat? memory_format=None)")
        float("float(*, MemoryFormat? memory_format=None)")
        double("double(*, MemoryFormat? memory_format=None)")
        half("half(*, MemoryFormat? memory_format=None)")
        bfloat16("bfloat16(*, MemoryFormat? memory_format=None)")
        int("int(*, MemoryFormat? memory_format=None)")
        long("long(*, MemoryFormat? memory_format=None)")
        short("short(*, MemoryFormat? memory_format=None)")
        char("char(*, MemoryFormat? memory_format=None)")
        byte("byte(*, MemoryFormat? memory_format=None)")
        bool("bool(*, MemoryFormat? memory_format=None)")
        cfloat("cfloat(*, MemoryFormat? memory_format=None)")
        cdouble("cdouble(*, MemoryFormat? memory_format=None)")
        set_(
        "set_()",
        "set_(Storage source)",
        "set_(Storage source, int64_t storage_offset, IntArrayRef size, IntArrayRef stride=None)",
        "set_(Tensor source)",
        "set_(Tensor source, int64_t storage_offset, IntArrayRef size, IntArrayRef stride=None)"
    )
    type("type(PyObject dtype=None, bool non_blocking=False)")
    map_("map_(Tensor other, PyObject callable)")
        map2_("map2_(Tensor x, Tensor y, PyObject callable)")
    }
});

/// What the method at a place of [`METHODS`] takes, if that is known here.
pub fn taken_by(index: usize) -> Option<&'static HandBound> {
    static BY_INDEX: LazyLock<Vec<Option<&'static HandBound>>> = LazyLock::new(|| {
        let named = |name: &str| TAKES.iter().find(|t| t.name() == name);
        METHODS.iter().map(|(name, _)| name.to_str().ok().and_then(named)).collect()
    });
    BY_INDEX.get(index).copied().flatten()
}
