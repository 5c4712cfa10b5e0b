/* The program around the quick start of adaptive_limit.h: see tests/docs.sh */
/* the block */

static int query(void *rows)
{
    *(int *)rows = 7;
    return 0;
}

int main(void)
{
    int rows = 0;
    return open_database() != 0 || bulkhead_invoke(&database, query, &rows, NULL) != 0 ||
           rows != 7 || adaptive_limit_read(&limit).limit != 4 ||
           bulkhead_snapshot(&database).permits != 4 ||
           bulkhead_close(&database, BULKHEAD_DRAIN, PLIM_FOREVER) != 0 ||
           bulkhead_destroy(&database) != 0;
}
