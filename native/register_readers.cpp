// Bindings of the lookups: a table, and readers of blocks and of slots that share it.
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "readers.hpp"

using namespace sparsedp;

// An index and the arrays that it refers to.
class Table {
   public:
    Table(In<uint64_t> ids, In<int64_t> values)
        : ids_(ids), values_(values), index_(ids.data(), values.data(), checked(ids.size(), values.size())) {}

    const TableIndex& index() const { return index_; }

    nb::tuple find(In<uint64_t> ids) const {
        const size_t count = ids.size();
        const uint64_t* x = ids.data();
        auto stored = uninitialised<bool>(count);
        auto values = uninitialised<int64_t>(count);
        {
            Unlocked unlocked;
            parallel_for(count, size_t{1} << 15, [&](size_t begin, size_t end) {
                for (size_t i = begin; i < end; ++i) {
                    const int64_t at = index_.find(x[i]);
                    stored[i] = at >= 0;
                    values[i] = at >= 0 ? index_.value(at) : 0;
                }
            });
        }
        return nb::make_tuple(own(std::move(stored), count), own(std::move(values), count));
    }

   private:
    static size_t checked(size_t ids, size_t values) {
        require(ids == values, "one value for each id");
        return ids;
    }

    In<uint64_t> ids_;
    In<int64_t> values_;
    TableIndex index_;
};

static std::vector<const TableIndex*> indices(nb::list tables, std::vector<nb::object>& kept) {
    std::vector<const TableIndex*> result;
    for (nb::handle table : tables) {
        result.push_back(&nb::cast<const Table&>(table).index());
        kept.push_back(nb::borrow(table));
    }
    return result;
}

template <typename Source>
static Out<double> read_all(const Reader<Source>& reader, const In<uint64_t>& ids) {
    const size_t count = ids.size();
    auto out = uninitialised<double>(count);
    {
        Unlocked unlocked;
        reader.read(ids.data(), count, out.get());
    }
    return own(std::move(out), count);
}

class TableReader {
   public:
    TableReader(nb::list tables, bool hashed, double factor, double offset, double answer)
        : reader_({{hashed, 0, 0}, tables.size(), answer}, indices(tables, kept_), {factor, offset}) {
        require(!kept_.empty(), "there must be a table");
    }

    Out<double> read(In<uint64_t> ids) const { return read_all(reader_, ids); }
    double read_one(uint64_t id) const { return reader_.read_one(id); }

   private:
    std::vector<nb::object> kept_;
    Reader<NoSource> reader_;
};

class BlockReader {
   public:
    BlockReader(nb::list tables, std::vector<In<uint64_t>> blocks, Shape shape, uint64_t total, bool hashed,
                uint64_t seed0, uint64_t seed1, uint64_t row_seed, In<double> values, double factor, double offset)
        : blocks_(std::move(blocks)),
          values_(values),
          reader_(source(shape, total, {hashed, seed0, seed1}, row_seed), indices(tables, kept_), {factor, offset}) {
        require(kept_.size() == blocks_.size(), "one table for each part");
    }

    Out<double> read(In<uint64_t> ids) const { return read_all(reader_, ids); }
    double read_one(uint64_t id) const { return reader_.read_one(id); }

   private:
    BlockSource source(Shape shape, uint64_t total, Placement place, uint64_t row_seed) const {
        const BlockLayout layout = block_layout(shape, total);
        const uint64_t parts = blocks_.size();
        require(parts >= 1 && total % parts == 0, "every part must have equally many blocks");
        uint32_t bits = 0;
        for (size_t j = 0; j < layout.levels; ++j) bits += layout.bits[j];
        require(values_.size() == size_t{1} << bits, "one value for each pattern");
        std::vector<const uint8_t*> bases;
        for (uint64_t part = 0; part < parts; ++part) {
            require(blocks_[part].size() == 8 * (total / parts), "an array must hold its blocks");
            const auto* bytes = reinterpret_cast<const uint8_t*>(blocks_[part].data());
            bases.push_back(bytes - part * (total / parts) * block_bytes);
        }
        return {layout, place, row_seed, parts, std::move(bases), values_.data()};
    }

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
          reader_(source(seeds, hashed, width, slots, segment), indices(tables, kept_), {1, 0}) {
        require(kept_.size() == packed_.size(), "one table for each part");
    }

    Out<double> read(In<uint64_t> ids) const { return read_all(reader_, ids); }
    double read_one(uint64_t id) const { return reader_.read_one(id); }

   private:
    SlotSource source(const std::vector<In<uint64_t>>& seeds, bool hashed, size_t width, size_t slots,
                      uint64_t segment) const {
        require(width >= 1 && width <= 8, "a slot has 1..8 bytes");
        require(!packed_.empty() && packed_.size() == seeds.size(), "one seed for each part");
        std::vector<SlotSource::System> systems;
        for (size_t part = 0; part < packed_.size(); ++part) {
            require(seeds[part].size() == 2, "a seed has two words");
            require(packed_[part].size() == slots * segment * width + 8, "an array must hold the slots and eight bytes");
            const SlotHash hash = slot_hash(seeds[part](0), seeds[part](1), slots, segment);
            systems.push_back({hash, packed_[part].data()});
        }
        require(lasts_.size() >= 1 && lasts_.size() == values_.size(), "one value for each bucket");
        for (size_t i = 1; i < lasts_.size(); ++i) require(lasts_(i - 1) < lasts_(i), "buckets must ascend");
        const BucketIndex buckets(lasts_.data(), lasts_.size(), static_cast<unsigned>(8 * width));
        return {{hashed, 0, 0}, std::move(systems), width, slots, buckets, values_.data()};
    }

    std::vector<In<uint8_t>> packed_;
    In<uint64_t> lasts_;
    In<double> values_;
    std::vector<nb::object> kept_;
    Reader<SlotSource> reader_;
};

void register_readers(nb::module_& m) {
    nb::class_<Table>(m, "Table")
        .def(nb::init<In<uint64_t>, In<int64_t>>(), nb::arg("ids"), nb::arg("values"))
        .def("find", &Table::find, nb::arg("ids"));
    nb::class_<TableReader>(m, "TableReader")
        .def(nb::init<nb::list, bool, double, double, double>(), nb::arg("tables"), nb::arg("hashed"),
             nb::arg("factor"), nb::arg("offset"), nb::arg("answer"))
        .def("read", &TableReader::read, nb::arg("ids"))
        .def("read_one", &TableReader::read_one, nb::arg("id"));
    nb::class_<BlockReader>(m, "BlockReader")
        .def(nb::init<nb::list, std::vector<In<uint64_t>>, Shape, uint64_t, bool, uint64_t, uint64_t, uint64_t,
                      In<double>, double, double>(),
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
