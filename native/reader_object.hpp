// For bindings: readers as Python sees them.
#pragma once
#include <memory>
#include <utility>

#include "bindings.hpp"
#include "keys_object.hpp"
#include "readers.hpp"

namespace sparsedp::bindings {

class AnyReader {
   public:
    AnyReader() = default;
    AnyReader(const AnyReader&) = delete;
    AnyReader& operator=(const AnyReader&) = delete;
    virtual ~AnyReader() = default;

    virtual size_t answers() const = 0;
    virtual double read_one(uint64_t id) const = 0;
    virtual void read_batch(const KeyBatch& keys, double* const* outs) const = 0;

    // An array for each answer that a key has.
    template <typename Given>
    nb::list read_all(Given keys) const {
        return read_batch_all(keys);
    }

    // The array of the first.
    template <typename Given>
    nb::object read(Given keys) const {
        return read_batch_all(keys)[0];
    }

   private:
    nb::list read_batch_all(const Keys& keys) const { return arrays(keys.batch()); }
    nb::list read_batch_all(const In<uint64_t>& ids) const { return arrays(KnownIds(span(ids))); }

    nb::list arrays(const KeyBatch& keys) const {
        const size_t count = keys.size();
        std::unique_ptr<double[]> owned[most_answers];
        double* outs[most_answers];
        for (size_t k = 0; k < answers(); ++k) {
            owned[k] = uninitialised<double>(count);
            outs[k] = owned[k].get();
        }
        {
            Unlocked unlocked;
            read_batch(keys, outs);
        }
        nb::list result;
        for (size_t k = 0; k < answers(); ++k) result.append(own(std::move(owned[k]), count));
        return result;
    }
};

}  // namespace sparsedp::bindings
