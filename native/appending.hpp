// Lists that several threads append to.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "memory.hpp"

namespace sparsedp {

// Room for at most so many; only the part that is used takes memory.
template <typename T>
class List {
   public:
    explicit List(size_t most) : items_(uninitialised<T>(most)) {}
    List(List&& other) noexcept : items_(std::move(other.items_)), size_(other.size_.load()) {}

    size_t size() const { return size_; }
    const T* data() const { return items_.get(); }
    void clear() { size_ = 0; }

    // Their order depends on the threads.
    void append(const T* items, size_t count) { std::copy_n(items, count, items_.get() + size_.fetch_add(count)); }

   private:
    std::unique_ptr<T[]> items_;
    std::atomic<size_t> size_{0};
};

// What one thread appends: some at a time, so that threads rarely meet, and the rest at the end.
template <typename T>
class Appending {
   public:
    explicit Appending(List<T>& list) : list_(list) {}
    Appending(Appending&& other) = delete;
    ~Appending() { flush(); }

    void add(T item) {
        if (used_ == some) flush();
        items_[used_++] = item;
    }

   private:
    static constexpr size_t some = 128;

    void flush() {
        list_.append(items_, used_);
        used_ = 0;
    }

    List<T>& list_;
    T items_[some];
    size_t used_ = 0;
};

}  // namespace sparsedp
