/* Berkeley DB: records put and got in transactions, in a B+tree or a hash table.
 *
 *   berkeley_db DIRECTORY btree|hash load|mixed RECORDS OPERATIONS
 *
 * `load` makes the table, in order of keys, and is done before anything is measured. `mixed` gets a random
 * record in two of three operations, and puts one in the third; each is a transaction, whose end writes the log and
 * forces it. Keys have 8 bytes, records 100.
 */
#include <db.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tierscope.h>

enum { CACHE_BYTES = 4 << 20, PAGE_BYTES = 4096, RECORD_BYTES = 100, LOADED_AT_ONCE = 1000 };

static void check(int status, const char *what)
{
    if (status) {
        fprintf(stderr, "berkeley_db: %s: %s\n", what, db_strerror(status));
        exit(1);
    }
}

static void put(DB *table, DB_TXN *transaction, uint64_t number, uint64_t version)
{
    /* Big-endian, so that the order of keys is that of numbers. */
    uint64_t name = __builtin_bswap64(number);
    char record[RECORD_BYTES];
    memset(record, 'a' + version % 26, sizeof record);
    memcpy(record, &version, sizeof version);
    DBT key = {.data = &name, .size = sizeof name}, data = {.data = record, .size = sizeof record};
    check(table->put(table, transaction, &key, &data, 0), "put");
}

static uint64_t get(DB *table, DB_TXN *transaction, uint64_t number)
{
    uint64_t name = __builtin_bswap64(number), version;
    char record[RECORD_BYTES];
    DBT key = {.data = &name, .size = sizeof name},
        data = {.data = record, .ulen = sizeof record, .flags = DB_DBT_USERMEM};
    check(table->get(table, transaction, &key, &data, 0), "get");
    memcpy(&version, record, sizeof version);
    return version;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr,
                "usage: berkeley_db DIRECTORY btree|hash load|mixed RECORDS OPERATIONS\n");
        return 2;
    }
    DBTYPE type = strcmp(argv[2], "hash") ? DB_BTREE : DB_HASH;
    int load = !strcmp(argv[3], "load");
    uint64_t records = strtoull(argv[4], NULL, 10), operations = strtoull(argv[5], NULL, 10);

    DB_ENV *environment;
    DB *table;
    check(db_env_create(&environment, 0), "environment");
    environment->set_errfile(environment, stderr);
    check(environment->set_cachesize(environment, 0, CACHE_BYTES, 1), "cache");
    check(environment->open(environment, argv[1],
                            DB_CREATE | DB_INIT_MPOOL | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN |
                                DB_RECOVER,
                            0),
          argv[1]);
    check(db_create(&table, environment, 0), "table");
    check(table->set_pagesize(table, PAGE_BYTES), "page size");
    check(table->open(table, NULL, "table.db", NULL, type, DB_CREATE | DB_AUTO_COMMIT, 0600),
          "table.db");

    DB_TXN *transaction;
    uint64_t sum = 0, x = 1;
    if (load) {
        for (uint64_t i = 0; i < records;) {
            check(environment->txn_begin(environment, NULL, &transaction, DB_TXN_NOSYNC), "begin");
            for (int j = 0; j < LOADED_AT_ONCE && i < records; j++, i++)
                put(table, transaction, i, 0);
            check(transaction->commit(transaction, DB_TXN_NOSYNC), "commit");
        }
    } else {
        TIERSCOPE_ROI_BEGIN();
        for (uint64_t i = 1; i <= operations; i++) {
            x = x * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
            uint64_t number = (x >> 33) % records;
            check(environment->txn_begin(environment, NULL, &transaction, 0), "begin");
            if (i % 3)
                sum += get(table, transaction, number);
            else
                put(table, transaction, number, i);
            check(transaction->commit(transaction, 0), "commit");
        }
        TIERSCOPE_ROI_END();
    }
    check(table->close(table, 0), "close");
    check(environment->txn_checkpoint(environment, 0, 0, 0), "checkpoint");
    check(environment->close(environment, 0), "close");
    printf("%llu records, %llu operations, sum %llu\n", (unsigned long long)records,
           (unsigned long long)(load ? 0 : operations), (unsigned long long)sum);
    return 0;
}
