// The module _native: kernels hold no state and draw no randomness. Arrays in (random words included), arrays out.
#include "bindings.hpp"

NB_MODULE(_native, m) {
    using namespace sparsedp::bindings;
    m.doc() = "Kernels of sparsedp: stateless, without randomness of their own.";
    register_keys(m);
    register_threads(m);
    register_balancing(m);
    register_blocks(m);
    register_composite(m);
    register_embedding(m);
    register_key_columns(m);
    register_noise(m);
    register_readers(m);
    register_arrow(m);
    register_retrieval(m);
    register_rounding(m);
    register_sorting(m);
}
