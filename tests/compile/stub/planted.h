/* tests/compile/stub/planted.h - declarations of every form, to test scan.awk
 * SPDX-License-Identifier: MIT
 *
 * What begins with FOO_ is at file scope, and the scan must find it; what begins with BAR_ is not.
 * The odd layouts are part of the test.
 */
/* clang-format off */
#define FOO_a 1
#  define FOO_b(BAR_x) BAR_x
#define FOO_c(BAR_x, ...) \
    (BAR_x)
#undef FOO_d

int FOO_variable;
static const char *FOO_text = "BAR_text; BAR_more { ( \" BAR_quote";
static int FOO_first = 1, *FOO_second, FOO_third[3] = {1, 2, 3};
static int (*FOO_pointer)(int BAR_argument);
extern char FOO_letters['}' - 'z'];
static struct FOO_here { int BAR_x; } FOO_object = {1};

typedef unsigned long FOO_number;
typedef int (*FOO_callback)(void *BAR_context, int (*BAR_inner)(void));
typedef int FOO_signature(int BAR_count);
typedef struct FOO_tag FOO_name;
typedef struct { int BAR_member; struct FOO_nested { int BAR_deep; } BAR_inside; } FOO_plain;
typedef int FOO_vector[4];
struct FOO_forward;
struct FOO_struct {
    int BAR_one : 3, BAR_two;
    enum { FOO_in_struct, FOO_in_struct_too } BAR_three;
    int (*BAR_four)(struct FOO_struct *BAR_self);
};
union FOO_union { int BAR_left; char BAR_right[sizeof(int)]; };
enum { FOO_zero, FOO_one = (2 + (3)), FOO_two };
enum FOO_enum { FOO_three = sizeof(struct FOO_struct) };

static inline int FOO_prototype(const char *BAR_path, ...);
static inline int FOO_function(int BAR_a, int (*BAR_b)(void))
{
    static int BAR_state;
    struct BAR_local { int BAR_field; } BAR_value = {BAR_a};
    for (int BAR_i = 0; BAR_i < 3; BAR_i++) { BAR_state += BAR_b() + BAR_value.BAR_field; }
    return BAR_state;
}
__attribute__((noinline, cold, unused)) static void FOO_slow(void)
{
}
static struct FOO_struct *FOO_returns(struct FOO_struct *BAR_p) __attribute__((unused));
static struct FOO_struct *FOO_returns(struct FOO_struct *BAR_p) { return BAR_p; }
_Static_assert(sizeof(int) > 1, "BAR_message");
extern long FOO_extern(long BAR_number, ...);
__attribute__((aligned(8))) static int FOO_aligned __attribute__((unused)); int FOO_same_line;
