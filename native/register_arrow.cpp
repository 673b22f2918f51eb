// Bindings of answers from column to column of Arrow.
#include "arrow_column.hpp"
#include "bindings.hpp"
#include "key_objects.hpp"
#include "reader_object.hpp"

namespace sparsedp::bindings {
namespace {

// A function from a column of keys to a table of their answers that takes a single call: for a few thousand keys, the
// objects in between would cost more than the answers.
class ColumnFunction {
   public:
    // `import_batch` and `from_batches` make the table: RecordBatch._import_from_c and Table.from_batches.
    ColumnFunction(const AnyReader& reader, uint64_t k0, uint64_t k1, const char* kind, nb::object schema,
                   nb::object import_batch, nb::object from_batches)
        : reader_(&reader),
          key_{k0, k1},
          tag_(tag_named(kind)),
          schema_(std::move(schema)),
          import_batch_(std::move(import_batch)),
          from_batches_(std::move(from_batches)) {}

    // None for a column that is not in one piece of the usual layout and without nulls: the caller answers that.
    nb::object operator()(nb::handle column) const {
        const nb::object capsule = column.attr("__arrow_c_stream__")();
        auto* stream = static_cast<ArrowStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
        if (stream == nullptr) throw nb::python_error();
        ArrowArray table{};
        {
            Unlocked unlocked;
            const StreamKeys given(key_, tag_, stream);
            if (given.keys() != nullptr) answer(*given.keys(), &table);
        }
        if (table.release == nullptr) return nb::none();
        nb::list batches;
        batches.append(import_batch_(reinterpret_cast<uintptr_t>(&table), schema_));
        return from_batches_(batches, schema_);
    }

   private:
    static KeyTag tag_named(const char* kind) {
        const KeyKind named = kind_named(kind);
        return named == integer_key ? integer_tag : named == text_key ? text_tag : bytes_tag;
    }

    void answer(const KeyBatch& keys, ArrowArray* table) const {
        auto numbers = uninitialised<double>(keys.size());
        double* const outs[] = {numbers.get()};
        reader_->read_batch(keys, outs);
        ExportedTable::fill(std::move(numbers), keys.size(), table);
    }

    const AnyReader* reader_;
    SipKey key_;
    KeyTag tag_;
    nb::object schema_, import_batch_, from_batches_;
};

}  // namespace

void register_arrow(nb::module_& m) {
    nb::class_<ColumnFunction>(m, "ColumnFunction")
        .def(nb::init<const AnyReader&, uint64_t, uint64_t, const char*, nb::object, nb::object, nb::object>(),
             nb::arg("reader"), nb::arg("k0"), nb::arg("k1"), nb::arg("kind"), nb::arg("schema"),
             nb::arg("import_batch"), nb::arg("from_batches"), nb::keep_alive<1, 2>())
        .def("__call__", &ColumnFunction::operator(), nb::arg("column"));
}

}  // namespace sparsedp::bindings
