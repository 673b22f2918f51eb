// Bindings of the paper's bit array.
#include "bindings.hpp"
#include "embedding.hpp"

namespace sparsedp::bindings {
namespace {

Out<uint64_t> rows_of(InMatrix<uint64_t> coefficients, uint64_t rows, uint64_t level, In<uint64_t> ids) {
    return map<uint64_t>(RowsOfLevel(matrix(coefficients), rows, level, span(ids)));
}

void embed_columns(InOut<uint64_t> array, InMatrix<uint64_t> coefficients, uint64_t rows, In<uint64_t> ids,
                   In<uint64_t> heights) {
    Unlocked unlocked;
    sparsedp::embed_columns(span(array), matrix(coefficients), rows, span(ids), span(heights));
}

Out<double> estimate_columns(In<uint64_t> array, InMatrix<uint64_t> coefficients, uint64_t rows, In<uint64_t> ids) {
    const auto functions = row_functions(matrix(coefficients));
    return map<double>(ColumnEstimates(functions, rows, span(array), span(ids)));
}

Out<double> estimate_rows(InMatrix<uint64_t> words, size_t levels) {
    return map<double>(WordEstimates(matrix(words), levels));
}

}  // namespace

void register_embedding(nb::module_& m) {
    m.def("rows_of", &rows_of, nb::arg("coefficients"), nb::arg("rows"), nb::arg("level"), nb::arg("ids"));
    m.def("embed_columns", &embed_columns, nb::arg("array"), nb::arg("coefficients"), nb::arg("rows"), nb::arg("ids"),
          nb::arg("heights"));
    m.def("estimate_columns", &estimate_columns, nb::arg("array"), nb::arg("coefficients"), nb::arg("rows"),
          nb::arg("ids"));
    m.def("estimate_rows", &estimate_rows, nb::arg("words"), nb::arg("levels"));
}

}  // namespace sparsedp::bindings
