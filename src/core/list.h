#ifndef PLIM_LIST_H_
#define PLIM_LIST_H_

/* Intrusive lists: a node is a member of what is listed. */

typedef struct plim_node_ {
    struct plim_node_ *next, *prev;
} plim_node_;

typedef struct plim_list_ {
    plim_node_ *first, *last;
} plim_list_;

static inline void plim_append_(plim_list_ *list, plim_node_ *node)
{
    node->next = NULL;
    node->prev = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = node;
    list->last = node;
}

static inline void plim_prepend_(plim_list_ *list, plim_node_ *node)
{
    node->next = list->first;
    node->prev = NULL;
    *(list->first != NULL ? &list->first->prev : &list->last) = node;
    list->first = node;
}

static inline void plim_unlink_(plim_list_ *list, plim_node_ *node)
{
    *(node->prev != NULL ? &node->prev->next : &list->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &list->last) = node->prev;
}

#endif /* PLIM_LIST_H_ */
