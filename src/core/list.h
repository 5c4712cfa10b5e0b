#ifndef PLIM_LIST_H_
#define PLIM_LIST_H_

/* Intrusive lists: a node is a member of what is listed. */

typedef struct plim_node_ {
    struct plim_node_ *next, *prev;
} plim_node_;

typedef struct plim_list_ {
    plim_node_ *first, *last;
} plim_list_;

PLIM_CALLED_ void plim_append_(plim_list_ *list, plim_node_ *node)
{
    node->next = NULL;
    node->prev = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = node;
    list->last = node;
}

PLIM_CALLED_ void plim_prepend_(plim_list_ *list, plim_node_ *node)
{
    node->next = list->first;
    node->prev = NULL;
    *(list->first != NULL ? &list->first->prev : &list->last) = node;
    list->first = node;
}

PLIM_CALLED_ void plim_unlink_(plim_list_ *list, plim_node_ *node)
{
    plim_node_ *prev = list->first == node ? NULL : node->prev;
    *(prev != NULL ? &prev->next : &list->first) = node->next;
    *(node->next != NULL ? &node->next->prev : &list->last) = prev;
}

/* Takes the first one out, and leaves the second alone: `prev` of the first means nothing. */
PLIM_FAST_ plim_node_ *plim_shift_(plim_list_ *list)
{
    plim_node_ *node = list->first;
    list->first = node->next;
    if (node->next == NULL) {
        list->last = NULL;
    }
    return node;
}

#endif /* PLIM_LIST_H_ */
