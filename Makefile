# Plimsoll. `make` lists the targets. Tests and benchmarks write nothing outside $(BUILD).

BUILD  ?= build
CC     ?= cc
CXX    ?= c++
CFLAGS ?=# after all other flags
STD     = -std=c11
SHELL   = /bin/sh

HEADERS  = semaphore.h weighted_sem.h bulkhead.h loop_scheduler.h adaptive_limit.h metrics.h
WARNINGS = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror

export BUILD CC CXX CFLAGS WARNINGS GREATEST PREFIX INCLUDEDIR DESTDIR INSTALL QUICK BENCH_FLAGS

.PHONY: help
help: # this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' Makefile

# ---- the common ones. tests/checks.list says what each section runs, side by side.

.PHONY: test check nightly
test: ## everything that a C compiler and make can check within a minute
	@tests/run.sh unit quick
check: ## what that leaves out: every variant and compiler, names, consumers, documentation
	@tests/run.sh full
nightly: ## what takes long: stress for minutes, the explorer without hints, more on other targets
	@LIMIT=7200 tests/run.sh stress nightly nightly-valgrind nightly-asan nightly-long nightly-tsan

.PHONY: demo tour bench bench-report
demo: $(BUILD)/examples/overload ## overload, without the toolkit and with it: 25 seconds, and a chart
	@$(BUILD)/examples/overload $(BUILD)/overload.svg
	@echo "More of each header: make tour"

TOUR = tour_semaphore train_models pooled_workers loop_chat find_limit
tour: $(TOUR:%=$(BUILD)/examples/%) ## what else each header can do
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
	@echo
	@echo "adaptive_limit.h: how many at once, on CPUs that nobody has counted: 20 seconds"
	@$(BUILD)/examples/find_limit

.PHONY: http-worker pg
http-worker: $(addprefix $(BUILD)/examples/http_worker/,worker_main load_main) ## an HTTP server that limits itself, and a client that loads it
	@echo "Start $<, open http://127.0.0.1:8081/ and load it: $(word 2,$^) 8080 1000 30 /query 300"

pg: # job workers on a private PostgreSQL: what they promise, faults, speed
	@tests/run.sh pg

bench: ## our headers beside the limit and their peers (QUICK=1: rough, in a minute)
	@bench/run.sh
bench-report: # the end of it, again from the JSON of the last run
	@bench/run.sh report

# ---- one kind of check each, by the same list

.PHONY: unit stress explore relacy tsan asan valgrind coverage cross
unit: # only the unit tests, one build of each
	@tests/run.sh unit
stress: ## random runs with a printed seed, a minute each
	@tests/run.sh stress; grep -h seed $(BUILD)/log/*_stress*.log
explore: ## the schedule explorer: all schedules, and every seeded fault must be found
	@tests/run.sh explore
relacy: ## the C11 memory model, by Relacy; every weakened memory order must be found
	@tests/run.sh relacy
tsan: ## the tests under ThreadSanitizer
	@tests/run.sh tsan
asan: ## the tests under AddressSanitizer, UBSan and LeakSanitizer
	@tests/run.sh asan
valgrind: ## the unit tests under valgrind's memcheck
	@tests/run.sh valgrind
coverage: ## lines and branches of the headers that the tests reach
	@tests/run.sh coverage
cross: # the unit tests on other targets, by qemu and wine
	@tests/run.sh cross

# ---- housekeeping

FORMATTED = $(wildcard src/*.h src/*/*.h tests/*.[ch] tests/*/*.[ch] tests/*/*.cc bench/*.[ch] \
            bench/*.cc examples/*.c examples/*/*.[ch])

.PHONY: format check-format stamp check-stamp check-version check-docs
format: # lay out the code as .clang-format says
	clang-format -i $(FORMATTED)
	@$(MAKE) -s stamp
check-format: # is the code laid out so? clang-format leaves long comments alone
	@awk 'length > 100 { print FILENAME ":" FNR ": longer than 100 columns"; bad = 1 } END { exit bad }' \
	   src/*.h src/*/*.h
	@command -v clang-format >/dev/null || { echo "skipped: clang-format is not installed"; exit 77; }; \
	 clang-format --dry-run -Werror $(FORMATTED)

stamp: ## assemble the headers from src/
	@mkdir -p $(BUILD)
	@for h in $(HEADERS); do \
	   awk -f tools/assemble.awk src/$$h >$(BUILD)/assembled || exit 1; \
	   cmp -s $(BUILD)/assembled $$h || { cp $(BUILD)/assembled $$h; echo "stamped $$h"; }; \
	 done
check-stamp: # are the headers what src/ says?
	@for h in $(HEADERS); do \
	   awk -f tools/assemble.awk src/$$h | diff -u $$h - || \
	     { echo "$$h is not what src/ says: edit src/, then make stamp"; exit 1; }; \
	 done
check-version: # is there one version everywhere?
	@tools/check-version.sh
check-docs: # does all code in README, docs/ and the manuals' quick starts work, do links lead somewhere?
	@tests/docs.sh

.PHONY: man install uninstall dist deps clean
man: ## man pages from the manuals and comments of the headers, in $(BUILD)/man
	@tools/man.sh $(BUILD)/man && echo "man -l $(BUILD)/man/plimsoll_bulkhead.3"
install: ## copy the headers to $(DESTDIR)$(PREFIX)/include/plimsoll; make uninstall removes them
	@tools/install.sh
uninstall:
	@tools/install.sh uninstall
dist: ## a tarball of the last commit in $(BUILD): the same bytes whenever and wherever it is made
	@tools/dist.sh
deps: ## install, on Debian, what the optional checks need (FOREIGN= for none of the peers)
	@tools/deps.sh
clean: ## remove $(BUILD)
	rm -rf $(BUILD)

# ---- programs: $(BUILD)/tests/bulkhead/test.cnd.tsan is tests/bulkhead/test.c with these flags

# Not optimised, unless they say so: most of the time goes into compiling.
FLAGS_O2       = -O2
FLAGS_cnd      = -DPLIM_PARK_CND
FLAGS_pthreads = -DPLIM_USE_PTHREADS -D_GNU_SOURCE
FLAGS_nospin   = -DPLIM_SPIN=0
# The sanitizers need POSIX threads: they do not follow C11's.
SANITIZE       = -std=gnu11 -Og -g1 -fno-omit-frame-pointer
FLAGS_tsan     = $(SANITIZE) -fsanitize=thread
FLAGS_asan     = $(SANITIZE) -fsanitize=address,undefined -fno-sanitize-recover=all -DPLIM_USE_PTHREADS
FLAGS_coverage = -std=gnu11 -O0 -g --coverage -fprofile-update=atomic
# tests/NAME/explore.c with an engine that is optimised and has no other flags;
# tests/explorer/run.sh makes the explorer of a module as a whole
FLAGS_explored = -iquote tests/explorer -DPLIM_HEADER='"$(CURDIR)/$(*D).h"' $@.engine.o

# GREATEST=path/to/greatest.h takes the genuine test framework instead of ours; it has warnings of
# its own, so ours are off then.
TEST_FLAGS = $(if $(GREATEST),-w -D_GNU_SOURCE -include $(abspath $(GREATEST)),$(WARNINGS))
parts      = $(subst ., ,$*)

# A program of several files: PARTS_NAME is what it has besides tests/NAME.c or examples/NAME.c. The
# lists of what a compilation read know the last file only, so the headers beside the parts are here.
HTTP   = $(addprefix examples/http_worker/,http.c http_line.c http_text.c http_response.c)
SERVER = $(HTTP) $(addprefix examples/http_worker/,server.c port.c connection.c)
WORKER = $(SERVER) $(addprefix examples/http_worker/worker,.c _call.c _handlers.c _control.c _figures.c \
         _page.c _settings.c)
LOAD   = $(addprefix examples/http_worker/,load.c load_print.c)
PARTS_http_worker/parser        = $(HTTP)
PARTS_http_worker/fuzz          = $(HTTP)
$(foreach p,server ends plain,$(eval PARTS_http_worker/$p = $$(SERVER)))
$(foreach p,worker worker_control worker_load capacity,$(eval PARTS_http_worker/$p = $$(WORKER) $$(LOAD)))
PARTS_http_worker/load          = $(SERVER) $(LOAD)
PARTS_http_worker/load_main     = $(LOAD)
PARTS_http_worker/worker_main   = $(WORKER)
PG = $(filter-out %/main.c,$(wildcard examples/pg_workers/*.c)) $(SERVER)
PARTS_pg_workers/main   = $(PG)
PARTS_pg_workers/worker = $(PG)
PARTS_pg_workers/naive  = $(addprefix examples/pg_workers/,config.c db.c statements.c)
whole = $(PARTS_$1) $(wildcard $(addsuffix *.h,$(sort $(dir $(PARTS_$1))))) $(if $(PARTS_$1),$(HEADERS))

.SECONDEXPANSION:
$(BUILD)/tests/%: Makefile $$(call whole,$$(firstword $$(subst ., ,$$*)))
	@mkdir -p $(@D)
	$(if $(filter explored,$(parts)),$(CC) $(STD) -O2 -c tests/explorer/explorer.c -o $@.engine.o)
	$(CC) $(STD) -O0 $(TEST_FLAGS) $(foreach v,$(wordlist 2,9,$(parts)),$(FLAGS_$v)) $(CFLAGS) \
	  -MMD -MP -MF $@.d -MT $@ $(PARTS_$(firstword $(parts))) tests/$(firstword $(parts)).c -o $@ \
	  -pthread -lm $(LIBS_$(firstword $(parts)))

$(patsubst tests/%.c,$(BUILD)/tests/%.explored.coverage,$(wildcard tests/*/explore.c)): \
  $(wildcard tests/explorer/*.[ch])

# A library is used by an example, if it is there: header, function, library (\043 is a number sign).
# Asked before any line of the recipe runs, so the folder is made here.
if_there = $(shell mkdir -p $(@D); \
             printf '\043include <stdio.h>\n\043include <$1>\nint main(void) { return &$2 == NULL; }\n' | \
             $(CC) -x c - -o $@.$3 -l$3 2>/dev/null && echo -DWITH_$4 -l$3)
LIBS_pooled_workers  = $(call if_there,sqlite3.h,sqlite3_open,sqlite3,SQLITE)
LIBS_http_worker/mhd = $(call if_there,microhttpd.h,MHD_start_daemon,microhttpd,MICROHTTPD)
LIBPQ = -I$(shell pg_config --includedir 2>/dev/null || echo /usr/include/postgresql) -lpq
$(foreach p,main worker naive,$(eval LIBS_pg_workers/$p = $$(LIBPQ)))

$(BUILD)/examples/%: Makefile $$(call whole,$$*)
	@mkdir -p $(@D)
	$(CC) $(STD) -O1 $(WARNINGS) $(CFLAGS) -MMD -MP -MF $@.d -MT $@ $(PARTS_$*) examples/$*.c -o $@ \
	  -pthread -lm $(LIBS_$*)

# Programs depend on what their last compilation read; nothing makes these lists but that.
$(BUILD)/tests/%.d $(BUILD)/examples/%.d: ;
-include $(wildcard $(BUILD)/tests/*/*.d $(BUILD)/tests/*.d $(BUILD)/examples/*.d \
           $(BUILD)/examples/*/*.d)
