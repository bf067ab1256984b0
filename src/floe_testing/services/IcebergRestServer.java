import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** Iceberg's reference REST catalog on the loopback interface. Arguments: the port and key=value pairs. */
public class IcebergRestServer {
  public static void main(String[] args) throws Exception {
    Map properties = new HashMap();
    for (int i = 1; i < args.length; i++) {
      int split = args[i].indexOf('=');
      properties.put(args[i].substring(0, split), args[i].substring(split + 1));
    }
    Catalog catalog = CatalogUtil.buildIcebergCatalog("reference", properties, new Configuration());
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
