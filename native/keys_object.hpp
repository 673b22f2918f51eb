// For bindings: keys as Python hands them to readers.
#pragma once
#include <memory>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "key_batch.hpp"

namespace sparsedp::bindings {

// A batch and the arrays that it refers to.
class Keys {
   public:
    template <typename Batch, typename... Arrays>
    static Keys of(std::unique_ptr<Batch> batch, Arrays... arrays) {
        return Keys(std::move(batch), std::make_shared<std::tuple<Arrays...>>(std::move(arrays)...));
    }

    const KeyBatch& batch() const { return *batch_; }
    size_t size() const { return batch_->size(); }

    Out<uint64_t> ids() const {
        auto out = uninitialised<uint64_t>(size());
        {
            Unlocked unlocked;
            batch_->all_ids(out.get());
        }
        return own(std::move(out), size());
    }

   private:
    Keys(std::unique_ptr<KeyBatch> batch, std::shared_ptr<void> arrays)
        : arrays_(std::move(arrays)), batch_(std::move(batch)) {}

    std::shared_ptr<void> arrays_;
    std::unique_ptr<KeyBatch> batch_;
};

}  // namespace sparsedp::bindings
