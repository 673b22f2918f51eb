// Bindings of the lookups: a table, and readers of blocks and of slots that share it.
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
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
Out<double> read_all(const Reader<Source>& reader, const In<uint64_t>& ids) {
    const size_t count = ids.size();
    auto out = uninitialised<double>(count);
    {
        Unlocked unlocked;
        reader.read(span(ids), out.get());
    }
    return own(std::move(out), count);
}

class TableReader {
   public:
    TableReader(nb::list tables, bool hashed, double factor, double offset, double answer)
        : reader_(NoSource({hashed, 0, 0}, tables.size(), answer), indices(tables, kept_), {factor, offset}) {}

    Out<double> read(In<uint64_t> ids) const { return read_all(reader_, ids); }
    double read_one(uint64_t id) const { return reader_.read_one(id); }

   private:
    std::vector<nb::object> kept_;
    Reader<NoSource> reader_;
};

class BlockReader {
   public:
    BlockReader(nb::list tables, std::vector<In<uint64_t>> blocks, InMatrix<uint32_t> shape, uint64_t total,
                bool hashed, uint64_t seed0, uint64_t seed1, uint64_t row_seed, In<double> values, double factor,
                double offset)
        : blocks_(std::move(blocks)),
          values_(values),
          reader_({block_layout(matrix(shape), total), {hashed, seed0, seed1}, row_seed, spans(blocks_), span(values_)},
                  indices(tables, kept_), {factor, offset}) {}

    Out<double> read(In<uint64_t> ids) const { return read_all(reader_, ids); }
    double read_one(uint64_t id) const { return reader_.read_one(id); }

   private:
    std::vector<In<uint64_t>> blocks_;
    In<double> values_;
    std::vector<nb::object> kept_;
    Reader<BlockSource> reader_;
};

class SlotReader {
   public:
    SlotReader(nb::list tables, std::vector<In<uint8_t>> packed, std::vector<In<uint64_t>> seeds, bool hashed,
               size_t width, size_t slots, uint64_t segment, In<uint64_t> lasts, In<double> values)
        : packed_(std::move(packed)),
          lasts_(lasts),
          values_(values),
          reader_({{hashed, 0, 0}, spans(packed_), spans(seeds), width, slots, segment, span(lasts_), span(values_)},
                  indices(tables, kept_), {1, 0}) {}

    Out<double> read(In<uint64_t> ids) const { return read_all(reader_, ids); }
    double read_one(uint64_t id) const { return reader_.read_one(id); }

   private:
    std::vector<In<uint8_t>> packed_;
    In<uint64_t> lasts_;
    In<double> values_;
    std::vector<nb::object> kept_;
    Reader<SlotSource> reader_;
};

}  // namespace

void register_readers(nb::module_& m) {
    m.def("find", &find, nb::arg("table"), nb::arg("ids"));
    nb::class_<Table>(m, "Table")
        .def(nb::init<In<uint64_t>, In<int64_t>>(), nb::arg("ids"), nb::arg("values"))
        .def("find", &Table::find, nb::arg("ids"));
    nb::class_<TableReader>(m, "TableReader")
        .def(nb::init<nb::list, bool, double, double, double>(), nb::arg("tables"), nb::arg("hashed"),
             nb::arg("factor"), nb::arg("offset"), nb::arg("answer"))
        .def("read", &TableReader::read, nb::arg("ids"))
        .def("read_one", &TableReader::read_one, nb::arg("id"));
    nb::class_<BlockReader>(m, "BlockReader")
        .def(nb::init<nb::list, std::vector<In<uint64_t>>, InMatrix<uint32_t>, uint64_t, bool, uint64_t, uint64_t,
                      uint64_t, In<double>, double, double>(),
             nb::arg("tables"), nb::arg("parts"), nb::arg("shape"), nb::arg("blocks"), nb::arg("hashed"),
             nb::arg("seed0"), nb::arg("seed1"), nb::arg("row_seed"), nb::arg("values"), nb::arg("factor"),
             nb::arg("offset"))
        .def("read", &BlockReader::read, nb::arg("ids"))
        .def("read_one", &BlockReader::read_one, nb::arg("id"));
    nb::class_<SlotReader>(m, "SlotReader")
        .def(nb::init<nb::list, std::vector<In<uint8_t>>, std::vector<In<uint64_t>>, bool, size_t, size_t, uint64_t,
                      In<uint64_t>, In<double>>(),
             nb::arg("tables"), nb::arg("packed"), nb::arg("seeds"), nb::arg("hashed"), nb::arg("width"),
             nb::arg("slots"), nb::arg("segment"), nb::arg("lasts"), nb::arg("values"))
        .def("read", &SlotReader::read, nb::arg("ids"))
        .def("read_one", &SlotReader::read_one, nb::arg("id"));
}

}  // namespace sparsedp::bindings
