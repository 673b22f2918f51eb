// Bindings of the lookups: a table, and readers of blocks and of slots that share it.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <tuple>

#include "bindings.hpp"
#include "key_objects.hpp"
#include "reader_object.hpp"
#include "readers.hpp"
#include "sources.hpp"

namespace sparsedp::bindings {
namespace {

Out<int64_t> find(In<uint64_t> table, In<uint64_t> ids) {
    const uint64_t *t = table.data(), *x = ids.data();
    const size_t count = table.size();
    return map<int64_t>(ids.size(), [=](size_t i) { return find_sorted(t, count, x[i]); });
}

// An index and the arrays that it refers to.
class Table {
   public:
    Table(In<uint64_t> ids, In<int64_t> values) : ids_(ids), values_(values), index_(span(ids), span(values)) {}

    const TableIndex& index() const { return index_; }

    nb::tuple find(In<uint64_t> ids) const {
        const size_t count = ids.size();
        auto stored = uninitialised<bool>(count);
        auto values = uninitialised<int64_t>(count);
        {
            Unlocked unlocked;
            index_.find_all(span(ids), stored.get(), values.get());
        }
        return nb::make_tuple(own(std::move(stored), count), own(std::move(values), count));
    }

   private:
    In<uint64_t> ids_;
    In<int64_t> values_;
    TableIndex index_;
};

std::vector<const TableIndex*> indices(nb::list tables, std::vector<nb::object>& kept) {
    std::vector<const TableIndex*> result;
    for (nb::handle table : tables) {
        result.push_back(&nb::cast<const Table&>(table).index());
        kept.push_back(nb::borrow(table));
    }
    return result;
}

template <typename Source>
class ReaderOf : public AnyReader {
   public:
    size_t answers() const override { return reader_.answers(); }
    double read_one(uint64_t id) const override { return reader_.read_one(id); }
    void read_batch(const KeyBatch& keys, double* const* outs) const override { reader_.read(keys, outs); }

   protected:
    ReaderOf(Source source, nb::list tables, In<double> values, std::vector<StoredAs> stored_as)
        : values_(values), reader_(std::move(source), indices(tables, kept_), span(values), std::move(stored_as)) {}

   private:
    std::vector<nb::object> kept_;
    In<double> values_;
    Reader<Source> reader_;
};

using Scale = std::tuple<double, double, double>;  // low, high, step

using Offsets = std::vector<double>;  // one for each answer of a key

std::vector<StoredAs> stored_as(double factor, const Offsets& offsets, const Scale& scale) {
    const auto [low, high, step] = scale;
    std::vector<StoredAs> result;
    result.reserve(offsets.size());
    for (const double offset : offsets) result.push_back({factor, offset, low, high, step});
    return result;
}

class TableReader : public ReaderOf<NoSource> {
   public:
    TableReader(nb::list tables, bool hashed, In<double> values, double factor, const Offsets& offsets, Scale scale)
        : ReaderOf(NoSource({hashed, 0, 0}, tables.size()), tables, values, stored_as(factor, offsets, scale)) {}
};

class BlockReader : public ReaderOf<BlockSource> {
   public:
    BlockReader(nb::list tables, std::vector<In<uint64_t>> blocks, InMatrix<uint32_t> shape, uint64_t total,
                bool hashed, uint64_t seed0, uint64_t seed1, uint64_t row_seed, In<double> values, double factor,
                const Offsets& offsets, Scale scale)
        : ReaderOf({block_layout(matrix(shape), total), {hashed, seed0, seed1}, row_seed, spans(blocks)}, tables,
                   values, stored_as(factor, offsets, scale)),
          blocks_(std::move(blocks)) {}

   private:
    std::vector<In<uint64_t>> blocks_;
};

class SlotReader : public ReaderOf<SlotSource> {
   public:
    SlotReader(nb::list tables, std::vector<In<uint8_t>> packed, std::vector<In<uint64_t>> seeds, bool hashed,
               size_t width, size_t slots, uint64_t segment, In<uint64_t> lasts, In<double> values,
               const Offsets& offsets, Scale scale)
        : ReaderOf({{hashed, 0, 0}, spans(packed), spans(seeds), width, slots, segment, span(lasts)}, tables, values,
                   stored_as(1, offsets, scale)),
          packed_(std::move(packed)),
          lasts_(lasts) {}

   private:
    std::vector<In<uint8_t>> packed_;
    In<uint64_t> lasts_;
};

// Answers one key after the other with a single call from Python.
class Single {
   public:
    Single(const AnyReader& reader, uint64_t k0, uint64_t k1, const char* kind)
        : reader_(&reader), key_{k0, k1}, kind_(kind_named(kind)) {}

    // None if it is not a key of this kind: the caller explains.
    nb::object operator()(nb::handle key) const {
        uint64_t id;
        if (!hash_one(key_, key.ptr(), kind_, &id)) return nb::none();
        return nb::float_(reader_->read_one(id));
    }

   private:
    const AnyReader* reader_;
    SipKey key_;
    KeyKind kind_;
};

const Scale plain{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 1};

}  // namespace

void register_readers(nb::module_& m) {
    m.def("find", &find, nb::arg("table"), nb::arg("ids"));
    nb::class_<Table>(m, "Table")
        .def(nb::init<In<uint64_t>, In<int64_t>>(), nb::arg("ids"), nb::arg("values"))
        .def("find", &Table::find, nb::arg("ids"));
    nb::class_<AnyReader>(m, "Reader")
        .def("read", &AnyReader::read<In<uint64_t>>, nb::arg("keys"))
        .def("read", &AnyReader::read<const Keys&>, nb::arg("keys"))
        .def("read_all", &AnyReader::read_all<In<uint64_t>>, nb::arg("keys"))
        .def("read_all", &AnyReader::read_all<const Keys&>, nb::arg("keys"))
        .def("read_one", &AnyReader::read_one, nb::arg("id"));
    nb::class_<TableReader, AnyReader>(m, "TableReader")
        .def(nb::init<nb::list, bool, In<double>, double, const Offsets&, Scale>(), nb::arg("tables"),
             nb::arg("hashed"), nb::arg("values"), nb::arg("factor"), nb::arg("offsets"), nb::arg("scale") = plain);
    nb::class_<BlockReader, AnyReader>(m, "BlockReader")
        .def(nb::init<nb::list, std::vector<In<uint64_t>>, InMatrix<uint32_t>, uint64_t, bool, uint64_t, uint64_t,
                      uint64_t, In<double>, double, const Offsets&, Scale>(),
             nb::arg("tables"), nb::arg("parts"), nb::arg("shape"), nb::arg("blocks"), nb::arg("hashed"),
             nb::arg("seed0"), nb::arg("seed1"), nb::arg("row_seed"), nb::arg("values"), nb::arg("factor"),
             nb::arg("offsets"), nb::arg("scale") = plain);
    nb::class_<SlotReader, AnyReader>(m, "SlotReader")
        .def(nb::init<nb::list, std::vector<In<uint8_t>>, std::vector<In<uint64_t>>, bool, size_t, size_t, uint64_t,
                      In<uint64_t>, In<double>, const Offsets&, Scale>(),
             nb::arg("tables"), nb::arg("packed"), nb::arg("seeds"), nb::arg("hashed"), nb::arg("width"),
             nb::arg("slots"), nb::arg("segment"), nb::arg("lasts"), nb::arg("values"), nb::arg("offsets"),
             nb::arg("scale") = plain);
    nb::class_<Single>(m, "Single")
        .def(nb::init<const AnyReader&, uint64_t, uint64_t, const char*>(), nb::arg("reader"), nb::arg("k0"),
             nb::arg("k1"), nb::arg("kind"), nb::keep_alive<1, 2>())
        .def("__call__", &Single::operator(), nb::arg("key").none());
}

}  // namespace sparsedp::bindings
