// Bindings of threads, and what must happen to calls in progress when the process forks or ends.
#include "bindings.hpp"

namespace sparsedp::bindings {

void register_threads(nb::module_& m) {
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&Unlocked::wait_at_exit));
    nb::module_ os = nb::module_::import_("os");
    if (nb::hasattr(os, "register_at_fork"))
        os.attr("register_at_fork")(nb::arg("after_in_child") = nb::cpp_function(&Unlocked::forget_after_fork));
    // An object that is still in use when the interpreter ends is not a leak: for example, a DuckDB connection whose
    // function looks up keys is never freed. Nanobind would print a page about it.
    nb::set_leak_warnings(false);
    m.def("thread_count", &thread_count);
}

}  // namespace sparsedp::bindings
