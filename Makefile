# Plimsoll. `make` lists the targets. Tests and benchmarks write nothing outside $(BUILD).

BUILD  ?= build
CC     ?= cc
CXX    ?= c++
PREFIX ?= /usr/local

HEADERS  = semaphore.h weighted_sem.h bulkhead.h loop_scheduler.h
WARNINGS = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
CFLAGS  ?= -O2 -g
STD      = -std=c11
SHELL    = /bin/sh

# Tests are compiled with tests/greatest.h, our own; GREATEST=path/to/greatest.h takes the genuine
# one instead. It has warnings of its own, so ours are off then.
GREATEST =
ifneq ($(GREATEST),)
TEST_FLAGS = -D_GNU_SOURCE -include $(abspath $(GREATEST))
TEST_WARNINGS = -w
else
TEST_FLAGS =
TEST_WARNINGS = $(WARNINGS)
endif

# name of a test program, then the file it is made of and its flags
UNIT_TESTS = test_core test_semaphore test_semaphore_cnd test_semaphore_cnd_pthreads \
             test_semaphore_nospin test_semaphore_posix test_failures test_failures_cnd \
             test_weighted_sem test_weighted_sem_cnd test_weighted_sem_pthreads \
             test_weighted_sem_nospin test_weighted_posix test_weighted_failures \
             test_weighted_failures_pthreads \
             test_bulkhead test_bulkhead_cnd test_bulkhead_pthreads test_bulkhead_nospin \
             test_bulkhead_posix test_bulkhead_corners test_bulkhead_failures \
             test_bulkhead_failures_pthreads \
             test_loop_scheduler test_loop_scheduler_cnd test_loop_scheduler_pthreads \
             test_loop_scheduler_nospin test_loop_scheduler_posix test_loop_scheduler_corners \
             test_loop_scheduler_failures test_composition test_composition_cnd
SOURCE_test_core                     = tests/test_core.c
SOURCE_test_semaphore                = tests/test_semaphore.c
SOURCE_test_semaphore_cnd            = tests/test_semaphore.c -DPLIM_PARK_CND
SOURCE_test_semaphore_cnd_pthreads   = tests/test_semaphore.c -DPLIM_PARK_CND -DPLIM_USE_PTHREADS \
                                       -D_GNU_SOURCE
SOURCE_test_semaphore_nospin         = tests/test_semaphore.c -DPLIM_SPIN=0
SOURCE_test_semaphore_posix          = tests/test_semaphore_posix.c
SOURCE_test_failures                 = tests/test_failures.c
SOURCE_test_failures_cnd             = tests/test_failures.c -DPLIM_PARK_CND
SOURCE_test_weighted_sem             = tests/test_weighted_sem.c
SOURCE_test_weighted_sem_cnd         = tests/test_weighted_sem.c -DPLIM_PARK_CND
SOURCE_test_weighted_sem_pthreads    = tests/test_weighted_sem.c -DPLIM_USE_PTHREADS -D_GNU_SOURCE
SOURCE_test_weighted_sem_nospin      = tests/test_weighted_sem.c -DPLIM_SPIN=0
SOURCE_test_weighted_posix           = tests/test_weighted_posix.c
SOURCE_test_weighted_failures        = tests/test_weighted_failures.c
SOURCE_test_weighted_failures_pthreads = tests/test_weighted_failures.c -DPLIM_USE_PTHREADS
SOURCE_test_bulkhead                 = tests/test_bulkhead.c
SOURCE_test_bulkhead_cnd             = tests/test_bulkhead.c -DPLIM_PARK_CND
SOURCE_test_bulkhead_pthreads        = tests/test_bulkhead.c -DPLIM_USE_PTHREADS -D_GNU_SOURCE
SOURCE_test_bulkhead_nospin          = tests/test_bulkhead.c -DPLIM_SPIN=0
SOURCE_test_bulkhead_posix           = tests/test_bulkhead_posix.c
SOURCE_test_bulkhead_corners         = tests/test_bulkhead_corners.c
SOURCE_test_bulkhead_failures        = tests/test_bulkhead_failures.c
SOURCE_test_bulkhead_failures_pthreads = tests/test_bulkhead_failures.c -DPLIM_USE_PTHREADS
SOURCE_test_loop_scheduler           = tests/test_loop_scheduler.c
SOURCE_test_loop_scheduler_cnd       = tests/test_loop_scheduler.c -DPLIM_PARK_CND
SOURCE_test_loop_scheduler_pthreads  = tests/test_loop_scheduler.c -DPLIM_USE_PTHREADS -D_GNU_SOURCE
SOURCE_test_loop_scheduler_nospin    = tests/test_loop_scheduler.c -DPLIM_SPIN=0
SOURCE_test_loop_scheduler_posix     = tests/test_loop_scheduler_posix.c
SOURCE_test_loop_scheduler_corners   = tests/test_loop_scheduler_corners.c
SOURCE_test_loop_scheduler_failures  = tests/test_loop_scheduler_failures.c
SOURCE_test_composition              = tests/test_composition.c
SOURCE_test_composition_cnd          = tests/test_composition.c -DPLIM_PARK_CND
SOURCE_stress_semaphore              = tests/stress_semaphore.c
SOURCE_stress_semaphore_cnd          = tests/stress_semaphore.c -DPLIM_PARK_CND
SOURCE_stress_weighted_sem           = tests/stress_weighted_sem.c
SOURCE_stress_weighted_sem_cnd       = tests/stress_weighted_sem.c -DPLIM_PARK_CND
SOURCE_stress_bulkhead               = tests/stress_bulkhead.c
SOURCE_stress_bulkhead_cnd           = tests/stress_bulkhead.c -DPLIM_PARK_CND
SOURCE_stress_loop_scheduler         = tests/stress_loop_scheduler.c
SOURCE_stress_loop_scheduler_cnd     = tests/stress_loop_scheduler.c -DPLIM_PARK_CND
SOURCE_stress_composition            = tests/stress_composition.c
SOURCE_stress_composition_cnd        = tests/stress_composition.c -DPLIM_PARK_CND
STRESS_TESTS = stress_semaphore stress_semaphore_cnd stress_weighted_sem stress_weighted_sem_cnd \
               stress_bulkhead stress_bulkhead_cnd stress_loop_scheduler stress_loop_scheduler_cnd \
               stress_composition stress_composition_cnd
PROGRAMS     = $(UNIT_TESTS) $(STRESS_TESTS)
EXAMPLES     = $(patsubst examples/%.c,%,$(wildcard examples/*.c))
DEPENDENCIES = $(HEADERS) $(wildcard core/*.h tests/*.c tests/*.h) Makefile

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

# ---- tests

$(BUILD)/tests/%: $(DEPENDENCIES)
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(TEST_WARNINGS) $(TEST_FLAGS) $(SOURCE_$*) -o $@ -pthread

# SQLite is used by an example, if it is there (\043 is a number sign)
SQLITE := $(shell mkdir -p $(BUILD) && printf '\043include <sqlite3.h>\nint main(void) { return !sqlite3_libversion_number(); }\n' | \
            $(CC) -x c - -o $(BUILD)/has_sqlite -lsqlite3 2>/dev/null && echo -DWITH_SQLITE -lsqlite3)
LIBS_pooled_workers = $(SQLITE)

$(BUILD)/examples/%: examples/%.c $(HEADERS) Makefile
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(WARNINGS) $< -o $@ -pthread $(LIBS_$*)

.PHONY: test
test: programs ## everything that a C compiler and make can check, in a minute
	@{ echo "check-stamp: $(MAKE) -s check-stamp"; \
	   echo "check-version: $(MAKE) -s check-version"; \
	   for t in $(UNIT_TESTS); do echo "$$t: $(BUILD)/tests/$$t"; done; \
	   for t in $(STRESS_TESTS); do echo "$$t: $(BUILD)/tests/$$t 2"; done; \
	   echo "explorer, quick: tests/explore/run.sh quick"; \
	   echo "compile, quick: tests/compile/matrix.sh --quick"; \
	   echo "check-shadow, quick: tests/compile/shadow.sh --quick"; \
	   echo "check-names, quick: tests/compile/names.sh --quick"; \
	   echo "consumers, quick: tests/consumers/run.sh --quick"; \
	   echo "example limited_downloads: $(BUILD)/examples/limited_downloads"; \
	   echo "example train_models: $(BUILD)/examples/train_models 20000"; \
	   echo "example quick_bulkhead: $(BUILD)/examples/quick_bulkhead"; \
	   echo "example pooled_workers: $(BUILD)/examples/pooled_workers fast"; \
	   echo "example tour_semaphore: $(BUILD)/examples/tour_semaphore fast"; \
	   echo "example quick_loop_scheduler: $(BUILD)/examples/quick_loop_scheduler"; \
	   echo "example loop_chat: $(BUILD)/examples/loop_chat"; \
	   echo "example loop_in_epoll: $(BUILD)/examples/loop_in_epoll"; \
	   echo "example overload: $(BUILD)/examples/overload fast $(BUILD)/overload_fast.svg"; \
	   echo "example three_layers: $(BUILD)/examples/three_layers"; \
	   echo "documentation: $(MAKE) -s check-docs"; \
	 } | CC='$(CC)' CXX='$(CXX)' BUILD='$(BUILD)' tests/run.sh

.PHONY: programs
programs: $(PROGRAMS:%=$(BUILD)/tests/%) $(EXAMPLES:%=$(BUILD)/examples/%)

UNIT_SOURCES = $(filter-out %_nospin %_pthreads %_cnd,$(UNIT_TESTS))
.PHONY: unit-sources
unit-sources: $(UNIT_SOURCES:%=$(BUILD)/tests/%) ## the unit tests, one build of each
	@for t in $(UNIT_SOURCES); do echo "$$t: $(BUILD)/tests/$$t"; done | BUILD='$(BUILD)' tests/run.sh

.PHONY: unit
unit: $(UNIT_TESTS:%=$(BUILD)/tests/%) ## only the unit tests
	@for t in $(UNIT_TESTS); do echo "$$t: $(BUILD)/tests/$$t"; done | BUILD='$(BUILD)' tests/run.sh

.PHONY: demo
demo: $(BUILD)/examples/overload ## overload, without the toolkit and with it: 20 seconds, and a chart
	@$(BUILD)/examples/overload $(BUILD)/overload.svg
	@echo "More of each header: make tour"

.PHONY: tour
tour: $(addprefix $(BUILD)/examples/,tour_semaphore train_models pooled_workers loop_chat) ## what else each header can do
	@$(BUILD)/examples/tour_semaphore
	@echo
	@echo "weighted_sem.h: a million jobs of mixed weight, in constant memory"
	@$(BUILD)/examples/train_models
	@echo
	@echo "bulkhead.h: a pool of workers with a store each, and everything that may happen to a job"
	@$(BUILD)/examples/pooled_workers
	@echo
	@echo "loop_scheduler.h: a chat room on one thread, without a lock"
	@$(BUILD)/examples/loop_chat

# ---- the stamped blocks, versions, the documentation

.PHONY: stamp
stamp: ## renew the blocks that the headers share, from core/
	@mkdir -p $(BUILD)
	@for h in $(HEADERS); do \
	   awk -v dir=core -f tools/stamp.awk $$h >$(BUILD)/stamped || exit 1; \
	   cmp -s $(BUILD)/stamped $$h || { cp $(BUILD)/stamped $$h; echo "stamped $$h"; }; \
	 done

.PHONY: check-stamp
check-stamp: ## are the shared blocks what core/ says?
	@for h in $(HEADERS); do \
	   awk -v dir=core -f tools/stamp.awk $$h | diff -u $$h - || \
	     { echo "$$h is not what core/ says: make stamp"; exit 1; }; \
	 done

.PHONY: check-version
check-version: ## is there one version everywhere?
	@want=$$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1); \
	 for h in $(HEADERS); do \
	   have=$$(sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p' $$h); \
	   [ "$$have" = "$$want" ] || { echo "$$h is $$have, CHANGELOG.md says $$want"; exit 1; }; \
	 done; \
	 number=$$(echo "$$want" | awk -F . '{ print $$1 * 10000 + $$2 * 100 + $$3 }'); \
	 [ "$$(grep -c -e "define PLIM_CORE_VERSION $$number /\* $$want," \
	    -e "PLIM_CORE_VERSION != $$number" -e "(core $$want)" core/core.h)" = 3 ] || \
	   { echo "core/core.h does not say $$want everywhere"; exit 1; }; \
	 grep -q "^project(plimsoll VERSION $$want " CMakeLists.txt || \
	   { echo "CMakeLists.txt does not say $$want"; exit 1; }; \
	 grep -q "^project('plimsoll', version: '$$want'," meson.build || \
	   { echo "meson.build does not say $$want"; exit 1; }

.PHONY: check-docs
check-docs: ## does all code in README, docs/ and the manuals' quick starts work, do links lead somewhere?
	@CC='$(CC)' BUILD='$(BUILD)' WARNINGS='$(WARNINGS)' tests/docs.sh

.PHONY: check-shadow
check-shadow: ## does <semaphore.h> still mean POSIX's to those who want it?
	@CC='$(CC)' CXX='$(CXX)' BUILD='$(BUILD)' tests/compile/shadow.sh

.PHONY: check-names
check-names: ## do our names keep out of others' way?
	@CC='$(CC)' CXX='$(CXX)' BUILD='$(BUILD)' tests/compile/names.sh

.PHONY: compile-matrix
compile-matrix: ## the headers with every compiler, language and target at hand
	@CC='$(CC)' CXX='$(CXX)' BUILD='$(BUILD)' tests/compile/matrix.sh

.PHONY: consumers
consumers: ## a little project that uses what is installed, by pkg-config, CMake and Meson
	@CC='$(CC)' CXX='$(CXX)' BUILD='$(BUILD)' tests/consumers/run.sh

# ---- heavier checks

# Not the builds with POSIX threads: under the sanitizers all have them.
SANITIZED_UNITS = $(filter-out %_pthreads,$(UNIT_TESTS))
SANITIZED = $(SANITIZED_UNITS) $(STRESS_TESTS)
NO_ASLR  := $(shell setarch -R true 2>/dev/null && echo setarch -R)

COMMA := ,
# The leak checker is blind in C11's threads, so the tests use POSIX's here.
define SANITIZE # name, flags
$(BUILD)/$(1)/%: $(DEPENDENCIES)
	@mkdir -p $$(@D)
	$(CC) -std=gnu11 -O1 -g -fno-omit-frame-pointer $(2) $(WARNINGS) $$(or $$(SOURCE_$$*),tests/$$*.c) \
	  -o $$@ -pthread
endef
$(eval $(call SANITIZE,tsan,-fsanitize=thread))
$(eval $(call SANITIZE,asan,-fsanitize=address$(COMMA)undefined -fno-sanitize-recover=all -DPLIM_USE_PTHREADS))


.PHONY: tsan
tsan: $(SANITIZED:%=$(BUILD)/tsan/%) $(BUILD)/tsan/racy ## the tests under ThreadSanitizer
	@{ echo "tsan finds a race: $(NO_ASLR) $(BUILD)/tsan/racy 2>&1 | grep 'data race'"; \
	   for t in $(SANITIZED_UNITS); do echo "tsan $$t: $(NO_ASLR) $(BUILD)/tsan/$$t"; done; \
	   for t in $(STRESS_TESTS); do echo "tsan $$t: $(NO_ASLR) $(BUILD)/tsan/$$t 5"; done; \
	 } | TSAN_OPTIONS=halt_on_error=1 BUILD='$(BUILD)' tests/run.sh

.PHONY: asan
asan: $(filter-out %_nospin,$(SANITIZED:%=$(BUILD)/asan/%)) ## the tests under AddressSanitizer, UBSan and LeakSanitizer
	@{ for t in $(filter-out %_nospin,$(SANITIZED_UNITS)); do echo "asan $$t: $(BUILD)/asan/$$t"; done; \
	   for t in $(STRESS_TESTS); do echo "asan $$t: $(BUILD)/asan/$$t 3"; done; \
	 } | ASAN_OPTIONS=detect_leaks=1 BUILD='$(BUILD)' tests/run.sh

# Not the builds that differ only in how they sleep: under valgrind each takes a minute.
UNDER_VALGRIND = $(filter-out %_nospin %_pthreads test_weighted_sem_cnd test_bulkhead_cnd \
                 test_loop_scheduler_cnd,$(UNIT_TESTS))
.PHONY: valgrind
valgrind: $(PROGRAMS:%=$(BUILD)/tests/%) ## the unit tests under valgrind's memcheck
	@if command -v valgrind >/dev/null; then \
	   for t in $(UNDER_VALGRIND); do \
	     echo "valgrind $$t: valgrind -q --error-exitcode=9 --leak-check=full --fair-sched=yes \
	       --suppressions=tests/valgrind.supp \
	       $(BUILD)/tests/$$t"; \
	   done | TEST_SCALE=10 BUILD='$(BUILD)' tests/run.sh; \
	 else echo "skipped: valgrind is not installed"; fi

.PHONY: cross
cross: ## the unit tests on other targets, by qemu and wine
	@BUILD='$(BUILD)' tests/cross.sh

STRESS_SECONDS = 60
.PHONY: stress
stress: $(STRESS_TESTS:%=$(BUILD)/tests/%) ## a long random run (STRESS_SECONDS=60)
	@for t in $(STRESS_TESTS); do echo "$$t: $(BUILD)/tests/$$t $(STRESS_SECONDS)"; done | \
	   BUILD='$(BUILD)' tests/run.sh; grep -h seed $(BUILD)/log/stress_*.log

.PHONY: explore
explore: ## the schedule explorer: all schedules, and every seeded fault must be found
	@CC='$(CC)' BUILD='$(BUILD)' tests/explore/run.sh || test $$? -eq 77

.PHONY: relacy
relacy: ## the C11 memory model, by Relacy; every weakened memory order must be found
	@CXX='$(CXX)' BUILD='$(BUILD)' tests/relacy/run.sh || test $$? -eq 77

.PHONY: coverage
coverage: ## lines and branches of the headers that the tests reach (needs gcovr)
	@CC='$(CC)' BUILD='$(BUILD)' tests/coverage.sh || test $$? -eq 77

BENCHES = semaphore weighted_sem bulkhead loop_scheduler
RESULTS = $(BENCHES:%=$(BUILD)/bench_%.json)
.PHONY: bench
bench: ## our headers beside the limit and their peers (QUICK=1: rough, in a minute)
	@CC='$(CC)' CXX='$(CXX)' BUILD='$(BUILD)' bench/build.sh
	@n=0; for b in $(BENCHES); do \
	   n=$$((n + 1)); \
	   echo "$$n of $(words $(BENCHES)), $$b.h: all tables in $(BUILD)/bench_$$b.txt"; \
	   $(BUILD)/bench/bench_$$b $(if $(QUICK),--quick) $(BENCH_FLAGS) \
	     --json $(BUILD)/bench_$$b.json >$(BUILD)/bench_$$b.txt || exit 1; \
	 done
	@$(MAKE) -s bench-report

.PHONY: bench-report
bench-report: ## the end of it, again from the JSON of the last run
	@awk -f bench/results.awk -f bench/html.awk $(RESULTS) >$(BUILD)/bench.html
	@awk -f bench/results.awk -f bench/summary.awk $(RESULTS)
	@echo; echo "pictures in $(BUILD)/bench.html, all tables and figures in $(BUILD)/bench_*.txt and .json"

# ---- housekeeping

FORMATTED = $(HEADERS) $(wildcard core/*.h tests/*.[ch] tests/*/*.[ch] tests/*/*.cc bench/*.[ch] \
            bench/*.cc examples/*.c)

.PHONY: format
format: ## lay out the code as .clang-format says
	clang-format -i core/*.h
	@$(MAKE) -s stamp
	clang-format -i $(FORMATTED)

.PHONY: check-format
check-format: ## is the code laid out so?
	@if command -v clang-format >/dev/null; then clang-format --dry-run -Werror $(FORMATTED); \
	 else echo "skipped: clang-format is not installed"; fi

PACKAGES = gcc g++ clang libclang-rt-14-dev clang-format valgrind strace gcovr musl-tools \
           relacy-dev libnsync-dev libconcurrentqueue-dev libuv1-dev gcc-12-multilib \
           gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf \
           libc6-dev-armhf-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross \
           gcc-mingw-w64-x86-64 wine64 qemu-user libsqlite3-dev libglib2.0-dev libtbb-dev libasio-dev \
           cmake meson ninja-build pkgconf
# peers in other languages; `make deps FOREIGN=` does without them
FOREIGN  = golang-go golang-golang-x-sync-dev default-jdk-headless cargo librust-tokio-dev
.PHONY: deps
deps: ## install, on Debian, what the optional checks need
	@if command -v apt-get >/dev/null; then \
	   sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	   missing=; for p in $(PACKAGES) $(FOREIGN); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	   [ -z "$$missing" ] || { $$sudo apt-get update -qq && \
	     DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -qq -y --no-install-recommends $$missing; }; \
	 else echo "skipped: no apt-get here; install by hand: $(PACKAGES) $(FOREIGN)"; fi

# Where the headers go, and beside them what pkg-config and CMake read; that names the include
# directory relative to the prefix, if it can.
INCLUDEDIR ?= $(PREFIX)/include
INSTALL    ?= install
FILLED_IN   = plimsoll.pc plimsoll-config.cmake plimsoll-config-version.cmake

.PHONY: install
install: ## copy the headers to $(DESTDIR)$(INCLUDEDIR)/plimsoll, for pkg-config and CMake, too
	@mkdir -p $(BUILD)/packaging
	@version=$$(sed -n '1s/.* - v\([0-9.]*\) - .*/\1/p' semaphore.h); \
	 include='$(INCLUDEDIR)'; include=$${include#'$(PREFIX)/'}; \
	 case $$include in /*) full=$$include ;; *) full="\$${prefix}/$$include" ;; esac; \
	 for f in $(FILLED_IN); do \
	   sed -e "s|@VERSION@|$$version|; s|@PREFIX@|$(PREFIX)|" \
	     -e "s|@PC_INCLUDEDIR@|$$full|; s|@INCLUDEDIR@|$$include|" \
	     packaging/$$f.in >$(BUILD)/packaging/$$f || exit 1; \
	 done
	$(INSTALL) -d '$(DESTDIR)$(INCLUDEDIR)/plimsoll' '$(DESTDIR)$(PREFIX)/share/pkgconfig' \
	  '$(DESTDIR)$(PREFIX)/share/cmake/plimsoll'
	$(INSTALL) -m 644 $(HEADERS) '$(DESTDIR)$(INCLUDEDIR)/plimsoll'
	$(INSTALL) -m 644 $(BUILD)/packaging/plimsoll.pc '$(DESTDIR)$(PREFIX)/share/pkgconfig'
	$(INSTALL) -m 644 $(BUILD)/packaging/*.cmake '$(DESTDIR)$(PREFIX)/share/cmake/plimsoll'

.PHONY: uninstall
uninstall: ## remove them; give it the same variables
	cd '$(DESTDIR)$(INCLUDEDIR)/plimsoll' && rm -f $(HEADERS)
	cd '$(DESTDIR)$(PREFIX)/share/cmake/plimsoll' && rm -f $(filter %.cmake,$(FILLED_IN))
	rm -f '$(DESTDIR)$(PREFIX)/share/pkgconfig/plimsoll.pc'
	rmdir '$(DESTDIR)$(INCLUDEDIR)/plimsoll' '$(DESTDIR)$(PREFIX)/share/cmake/plimsoll'

.PHONY: clean
clean: ## remove $(BUILD)
	rm -rf $(BUILD)
