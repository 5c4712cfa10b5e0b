/* The program around the quick start of semaphore.h: see tests/docs.sh */
static int download(const char *url)
{
    return url[0] == 0;
}

/* the block */

int main(void)
{
    return fetch("x");
}
