import java.net.InetSocketAddress;
import java.sql.SQLException;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** A Hive metastore on the loopback interface, with the tables for locks. The argument is the port. */
public class HiveMetastoreServer {
  private static final String TABLE_EXISTS = "X0Y32";

  public static void main(String[] args) throws Exception {
    HiveConf conf = new HiveConf(HiveMetastoreServer.class);
    // The schema that Hive creates automatically lacks the tables for locks.
    try {
      TxnDbUtil.prepDb(conf);
    } catch (SQLException e) {
      if (!TABLE_EXISTS.equals(e.getSQLState())) {
        throw e;
      }
    }
    IHMSHandler base = new HiveMetaStore.HMSHandler("floe", conf, false);
    IHMSHandler handler = HiveMetaStore.newRetryingHMSHandler(base, conf);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
    TThreadPoolServer.Args settings = new TThreadPoolServer.Args(socket);
    settings.processor(new TSetIpAddressProcessor(handler));
    new TThreadPoolServer(settings).serve();
  }
}
