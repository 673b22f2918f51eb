// Bindings of threads, and what must happen to calls under way when the process forks or ends.
#include "bindings.hpp"

namespace sparsedp::bindings {

void register_threads(nb::module_& m) {
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&Unlocked::wait_at_exit));
    nb::module_ os = nb::module_::import_("os");
    if (nb::hasattr(os, "register_at_fork"))
        os.attr("register_at_fork")(nb::arg("after_in_child") = nb::cpp_function(&Unlocked::forget_after_fork));
    // What something else still holds when the interpreter ends is no leak: a DuckDB connection, for example, whose
    // function looks keys up and is never freed. Nanobind would print a page about it.
    nb::set_leak_warnings(false);
    m.def("thread_count", &thread_count);
}

}  // namespace sparsedp::bindings
